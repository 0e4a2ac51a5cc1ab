// Headers of safetensors files: what is true is taken, every lie is refused and named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/safetensors/header.h"
#include "base/error.h"
#include "fakes/safetensors_bytes.h"
#include "fakes/temp_folder.h"

namespace slabload::safetensors {
namespace {

using slabload::testing::safetensors_bytes;
using slabload::testing::TempFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;

// The message of the refusal, which must be Status::file and one line; "taken" if there was none.
std::string refusal(const std::string& json, std::uint64_t data_bytes) {
  try {
    parse_header(json, data_bytes, "bad.safetensors");
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::file);
    EXPECT_EQ(error.message().find('\n'), std::string::npos) << error.message();
    return error.message();
  }
  return "taken";
}

TEST(SafetensorsHeader, TakesAPlainHeader) {
  auto header = parse_header(
      R"({"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}   )",
      16, "x");
  ASSERT_EQ(header.tensors.size(), 2u);
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_EQ(header.tensors[1].name, "b");
  EXPECT_EQ(header.tensors[1].dtype, DType::bf16);
  EXPECT_EQ(header.tensors[1].shape, (Shape{2, 3}));
  EXPECT_EQ(header.tensors[1].begin, 4u);
  EXPECT_EQ(header.tensors[1].end, 16u);
  EXPECT_TRUE(header.metadata.empty());
}

TEST(SafetensorsHeader, KnowsAllDtypesAndTheirSizes) {
  // The names and sizes of the format's own list.
  const std::vector<std::pair<std::string, int>> dtypes = {
      {"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"I64", 8}, {"I32", 4},
      {"I16", 2}, {"I8", 1},  {"U64", 8}, {"U32", 4},  {"U16", 2},     {"U8", 1},      {"BOOL", 1}};
  ASSERT_EQ(dtypes.size(), static_cast<std::size_t>(kDTypeCount));
  for (const auto& [name, size] : dtypes) {
    auto json = fmt::format(R"({{"t":{{"dtype":"{}","shape":[3],"data_offsets":[0,{}]}}}})", name, 3 * size);
    auto header = parse_header(json, 3u * size, "x");
    ASSERT_EQ(header.tensors.size(), 1u) << name;
    EXPECT_EQ(safetensors_name(header.tensors[0].dtype), name);
    EXPECT_THAT(refusal(json, 3u * size + 1), HasSubstr("1 bytes after")) << name;
  }
}

TEST(SafetensorsHeader, TakesZeroDimensionsEmptyTensorsAndOddNames) {
  auto header = parse_header(R"({"":{"dtype":"U8","shape":[],"data_offsets":[0,1]},)"
                             R"("empty at 1":{"dtype":"F32","shape":[0,7],"data_offsets":[1,1]},)"
                             R"("empty at 0":{"dtype":"F32","shape":[7,0],"data_offsets":[0,0]},)"
                             R"("a/b \u00e9\u0001\"":{"dtype":"U8","shape":[1,1],"data_offsets":[1,2]}})",
                             2, "x");
  ASSERT_EQ(header.tensors.size(), 4u);
  EXPECT_EQ(header.tensors[0].name, "empty at 0");
  EXPECT_EQ(header.tensors[1].name, "");
  EXPECT_EQ(header.tensors[1].shape.ndim(), 0u);
  EXPECT_EQ(header.tensors[2].name, "empty at 1");
  EXPECT_EQ(header.tensors[3].name, "a/b \xc3\xa9\x01\"");
  EXPECT_TRUE(parse_header("{}", 0, "x").tensors.empty());
}

TEST(SafetensorsHeader, KeepsMetadata) {
  auto header = parse_header(R"({"__metadata__":{"format":"pt","k":""}})", 0, "x");
  EXPECT_EQ(header.metadata, (std::map<std::string, std::string>{{"format", "pt"}, {"k", ""}}));
  EXPECT_TRUE(header.tensors.empty());
  EXPECT_THAT(refusal(R"({"__metadata__":{"k":1}})", 0),
              HasSubstr("__metadata__ 'k' is a number, not a string"));
  EXPECT_THAT(refusal(R"({"__metadata__":[]})", 0), HasSubstr("__metadata__ is a list, not an object"));
  EXPECT_THAT(refusal(R"({"__metadata__":{"k":"1","k":"2"}})", 0), HasSubstr("'k' is given twice"));
}

TEST(SafetensorsHeader, RefusesWhatIsNotAJsonObject) {
  for (std::string json : {"", "[]", " {}", "x", "\"a\"", "\xef\xbb\xbf{}"}) {
    EXPECT_THAT(refusal(json, 0), AllOf(HasSubstr("bad.safetensors"), HasSubstr("does not begin with '{'")))
        << json;
  }
  for (std::string json : {"{", "{}x", "{}{}", "{\"a\":}", "{\"a\xff\":1}", "{'a':1}", "{}\n,"}) {
    EXPECT_THAT(refusal(json, 0), AllOf(HasSubstr("bad.safetensors"), HasSubstr("not JSON"))) << json;
  }
  EXPECT_THAT(refusal(std::string("{}\0{\"hidden\":1}", 14), 0), HasSubstr("zero byte"));
  EXPECT_THAT(refusal("{\"a\":" + std::string(100000, '['), 0), HasSubstr("nests too deep"));
}

struct Lie {
  const char* what;
  const char* entry;
  const char* message;
};

// Each entry is that of a tensor "t" in a file with 8 data bytes.
TEST(SafetensorsHeader, RefusesEveryLieAboutATensorByName) {
  const Lie lies[] = {
      {"not an object", R"([1])", "its entry is a list"},
      {"no dtype", R"({"shape":[2],"data_offsets":[0,8]})", "dtype is missing"},
      {"no shape", R"({"dtype":"F32","data_offsets":[0,8]})", "shape is missing"},
      {"no offsets", R"({"dtype":"F32","shape":[2]})", "data_offsets is missing"},
      {"extra field", R"({"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1})", "unknown field 'x'"},
      {"dtype not text", R"({"dtype":4,"shape":[2],"data_offsets":[0,8]})", "dtype is a number"},
      {"unknown dtype", R"({"dtype":"F128","shape":[2],"data_offsets":[0,8]})", "unknown dtype 'F128'"},
      {"our spelling", R"({"dtype":"f32","shape":[2],"data_offsets":[0,8]})", "unknown dtype 'f32'"},
      {"shape not a list", R"({"dtype":"F32","shape":2,"data_offsets":[0,8]})",
       "shape is a number, not a list"},
      {"negative", R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})", "shape holds -2"},
      {"fraction", R"({"dtype":"F32","shape":[2.0],"data_offsets":[0,8]})", "shape holds 2.0"},
      {"text", R"({"dtype":"F32","shape":["2"],"data_offsets":[0,8]})", "shape holds a string"},
      {"null", R"({"dtype":"F32","shape":[null],"data_offsets":[0,8]})", "shape holds null"},
      {"beyond 64 bits", R"({"dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,8]})",
       "shape holds 1.8"},
      {"product overflows to 2", R"({"dtype":"F32","shape":[9223372036854775809,2],"data_offsets":[0,8]})",
       "is beyond 2^64 bytes"},
      {"bytes overflow to 8", R"({"dtype":"F32","shape":[4611686018427387906],"data_offsets":[0,8]})",
       "is beyond 2^64 bytes"},
      {"one offset", R"({"dtype":"F32","shape":[2],"data_offsets":[0]})",
       "data_offsets has 1 numbers, not 2"},
      {"three offsets", R"({"dtype":"F32","shape":[2],"data_offsets":[0,8,8]})",
       "data_offsets has 3 numbers"},
      {"negative offset", R"({"dtype":"F32","shape":[2],"data_offsets":[-8,0]})", "data_offsets holds -8"},
      {"backwards", R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})", "[8, 0] run backwards"},
      {"beyond the file", R"({"dtype":"F32","shape":[3],"data_offsets":[0,12]})",
       "[0, 12] reach beyond the 8 data bytes"},
      {"too few bytes", R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})",
       "hold 8 bytes, F32 (3) needs 12"},
      {"too many bytes", R"({"dtype":"F32","shape":[1],"data_offsets":[0,8]})",
       "hold 8 bytes, F32 (1) needs 4"},
      {"0-d with none", R"({"dtype":"F32","shape":[],"data_offsets":[0,0]})", "hold 0 bytes, F32 () needs 4"},
      {"empty with some", R"({"dtype":"F32","shape":[0],"data_offsets":[0,8]})",
       "hold 8 bytes, F32 (0) needs 0"},
      {"empty out of bounds", R"({"dtype":"F32","shape":[0],"data_offsets":[9,9]})", "reach beyond"},
      {"dtype twice", R"({"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]})",
       "header, 't': 'dtype' is given twice"},
      {"a gap before", R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})",
       "bytes 0 to 4 before it belong to no"},
  };
  for (const Lie& lie : lies) {
    std::string message = refusal(fmt::format(R"({{"t":{}}})", lie.entry), 8);
    EXPECT_THAT(message, AllOf(HasSubstr("bad.safetensors"), HasSubstr(lie.message))) << lie.what;
    if (std::string(lie.what) != "dtype twice") {
      EXPECT_THAT(message, HasSubstr("tensor t:")) << lie.what;
    }
  }
}

TEST(SafetensorsHeader, RefusesMoreDimensionsThanAreTaken) {
  auto json = [](int ndim) {
    std::string ones = "1";
    for (int i = 1; i < ndim; ++i) ones += ",1";
    return fmt::format(R"({{"t":{{"dtype":"U8","shape":[{}],"data_offsets":[0,1]}}}})", ones);
  };
  EXPECT_EQ(refusal(json(32), 1), "taken");
  EXPECT_THAT(refusal(json(33), 1), HasSubstr("tensor t: 33 dimensions, at most 32"));
}

TEST(SafetensorsHeader, RefusesExtentsThatDoNotCoverTheFileOnce) {
  auto two = [](int a, int b, int c, int d) {
    return fmt::format(R"({{"one":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}},)"
                       R"("two":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}}}})",
                       b - a, a, b, d - c, c, d);
  };
  EXPECT_EQ(refusal(two(0, 4, 4, 8), 8), "taken");
  EXPECT_EQ(refusal(two(4, 8, 0, 4), 8), "taken");
  EXPECT_THAT(refusal(two(0, 5, 4, 8), 8),
              AllOf(HasSubstr("tensor two:"), HasSubstr("overlap those of tensor one")));
  EXPECT_THAT(refusal(two(0, 8, 0, 8), 8), HasSubstr("overlap"));
  EXPECT_THAT(refusal(two(0, 8, 2, 4), 8), HasSubstr("overlap"));
  EXPECT_THAT(refusal(two(0, 3, 4, 8), 8),
              AllOf(HasSubstr("tensor two:"), HasSubstr("bytes 3 to 4 before it")));
  EXPECT_THAT(refusal(two(0, 4, 4, 7), 8),
              HasSubstr("1 bytes after the last tensor two belong to no tensor"));
  EXPECT_THAT(refusal("{}", 8), HasSubstr("8 bytes after the last tensor belong to no tensor"));
}

TEST(SafetensorsHeader, RefusesATensorGivenTwice) {
  EXPECT_THAT(refusal(R"({"t":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                      R"("t":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                      0),
              AllOf(HasSubstr("bad.safetensors"), HasSubstr("'t' is given twice")));
}

// Writes the bytes to a file and reads its header.
std::string file_refusal(const std::string& bytes) {
  TempFolder folder;
  std::string path = folder.write("f.safetensors", bytes);
  try {
    auto header = read_header(host::File::open_read(path));
    return fmt::format("taken, data at {}", header.data_start);
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::file);
    EXPECT_THAT(error.message(), HasSubstr(path));
    return error.message();
  }
}

TEST(SafetensorsHeader, BelievesNoHeaderLength) {
  const std::string json = R"({"t":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})";
  const std::string good = safetensors_bytes(json, "ab");
  EXPECT_EQ(file_refusal(good), fmt::format("taken, data at {}", 8 + json.size()));
  EXPECT_THAT(file_refusal(""), HasSubstr("too short"));
  EXPECT_THAT(file_refusal(good.substr(0, 7)), HasSubstr("too short"));
  EXPECT_THAT(file_refusal(good.substr(0, 20)), HasSubstr("cut short"));
  EXPECT_THAT(file_refusal(good.substr(0, good.size() - 1)),
              AllOf(HasSubstr("tensor t"), HasSubstr("cut short")));
  EXPECT_THAT(file_refusal(good + "c"), HasSubstr("1 bytes after the last tensor"));
  EXPECT_THAT(file_refusal(std::string(8, '\xff') + "{}"), HasSubstr("at most 100000000"));
  EXPECT_THAT(file_refusal(std::string("\1\0\0\0\0\0\0\0", 8)), HasSubstr("cut short"));
  EXPECT_THAT(file_refusal(std::string(8, '\0')), HasSubstr("does not begin with"));
}

}  // namespace
}  // namespace slabload::safetensors
