// Errors, and names made fit for a terminal.
#include "base/error.h"

#include <gtest/gtest.h>

#include "base/utf8.h"

namespace slabload {
namespace {

TEST(Error, CarriesStatusAndMessage) {
  try {
    fail(Status::file, "{} is {}", "x", 5);
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::file);
    EXPECT_EQ(error.message(), "x is 5");
    EXPECT_STREQ(error.what(), "x is 5");
    EXPECT_FALSE(error.agreed());
    Error agreed = error.as_agreed(17);
    EXPECT_TRUE(agreed.agreed());
    EXPECT_EQ(agreed.rank(), 17);
    EXPECT_EQ(agreed.status(), Status::file);
    return;
  }
  FAIL() << "nothing was thrown";
}

TEST(Printable, KeepsText) {
  EXPECT_EQ(printable(""), "");
  EXPECT_EQ(printable("model.layers.0/weight [x]"), "model.layers.0/weight [x]");
  EXPECT_EQ(printable("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80"),
            "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80");
}

TEST(Printable, EscapesControlCharactersAndBrokenBytes) {
  EXPECT_EQ(printable("a\nb\x1b[31m\x7f"), "a\\x0ab\\x1b[31m\\x7f");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("a\\x0a"), "a\\x5cx0a");
  EXPECT_EQ(printable("a\xff"), "a\\xff");
  EXPECT_EQ(printable("\xc3"), "\\xc3");           // cut short
  EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82");  // cut short
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");  // an overlong '/'
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\xc2\\x9b"
            "31m");  // CSI, U+009B: terminals obey it
}

TEST(Utf8, KnowsTextFromBytes) {
  for (const char* text : {"", "abc", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
                           "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(is_utf8(text)) << printable(text);
  }
  for (const char* text : {"\x80", "\xbf", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
                           "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "a\xe2\x82", "\xe2\x28\xa1"}) {
    EXPECT_FALSE(is_utf8(text)) << printable(text);
  }
}

}  // namespace
}  // namespace slabload
