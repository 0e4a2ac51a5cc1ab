// Another program's work: its output, and each way in which it can fail.
#include "backend/host/tool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/thrown_error.h"

namespace slabload::host {
namespace {

using ::slabload::testing::thrown_error;
using ::testing::HasSubstr;

TEST(Tool, ReturnsWhatIsPrinted) {
  const std::string large(3 << 20, 'x');  // more than a pipe holds
  EXPECT_EQ(output_of("cat", {}, large, 60), large);
  EXPECT_EQ(output_of("tr", {"a", "b"}, "banana", 60), "bbnbnb");
  EXPECT_EQ(output_of("true", {}, "", 60), "");
}

TEST(Tool, SaysWhyItFailed) {
  const auto why = [](const std::string& script, double timeout_s) {
    const Error error = thrown_error([&] { output_of("sh", {"-c", script}, "", timeout_s); });
    EXPECT_EQ(error.status(), Status::file);
    return error.message();
  };
  EXPECT_EQ(why("echo no >&2; exit 3", 60), "sh: ended with status 3: no");
  EXPECT_EQ(why("kill -9 $$", 60), "sh: ended by signal 9");
  EXPECT_THAT(why("sleep 60", 0.05), HasSubstr("not done after"));
  EXPECT_THAT(thrown_error([] { output_of("slabload-no-such-tool", {}, "", 60); }).message(),
              HasSubstr("slabload-no-such-tool: cannot be started: No such file"));
}

}  // namespace
}  // namespace slabload::host
