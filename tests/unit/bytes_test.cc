// Sizes and times as people write them.
#include "base/bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/thrown_error.h"

namespace slabload {
namespace {

using slabload::testing::thrown_error;
using ::testing::HasSubstr;

TEST(Bytes, ParsesSizes) {
  struct {
    const char* text;
    std::uint64_t bytes;
  } cases[] = {{"0", 0},
               {"4096", 4096},
               {"4096B", 4096},
               {"1KiB", 1024},
               {"64MiB", 67108864},
               {"64 MiB", 67108864},
               {"1GiB", 1073741824},
               {"2TiB", 2199023255552},
               {"1KB", 1000},
               {"1kB", 1000},
               {"5MB", 5000000},
               {"5GB", 5000000000},
               {"3TB", 3000000000000},
               {"1.5GiB", 1610612736},
               {".5KiB", 512},
               {"0.1MB", 100000},
               // Above 2^53 a double would lose the last digits.
               {"9007199254740993", 9007199254740993},
               {"9223372036854774784", 9223372036854774784}};
  for (const auto& c : cases) EXPECT_EQ(parse_bytes(c.text, "--staging"), c.bytes) << c.text;
}

TEST(Bytes, RefusesWhatIsNoSize) {
  for (const char* text :
       {"", "MiB", "-1", "+1", "0x10", "0x10MiB", "1e3", "inf", "nan", ".", "1.2.3", "5 parsecs", "5mib",
        "5Mib", "1 2", "9223372036854775808", "18446744073709551616", "8388608TiB"}) {
    Error error = thrown_error([&] { parse_bytes(text, "--staging"); });
    EXPECT_EQ(error.status(), Status::usage) << text;
    EXPECT_THAT(error.message(), HasSubstr("--staging")) << text;
  }
  EXPECT_EQ(thrown_error([] { parse_bytes(std::string_view("5\0MiB", 5), "x"); }).status(), Status::usage);
}

TEST(Bytes, FormatsPowersOfTen) {
  struct {
    std::uint64_t bytes;
    const char* text;
  } cases[] = {{0, "0 B"},
               {1, "1 B"},
               {999, "999 B"},
               {1000, "1.000 kB"},
               {1234, "1.234 kB"},
               {12345, "12.35 kB"},
               {123456, "123.5 kB"},
               {999949, "999.9 kB"},
               {999950, "1.000 MB"},
               {988065024, "988.1 MB"},
               {9999499999, "9.999 GB"},
               {9999500000, "10.00 GB"},
               {18446744073709551615u, "18.45 EB"}};
  for (const auto& c : cases) EXPECT_EQ(format_bytes(c.bytes), c.text);
}

TEST(Bytes, FormatsLimitsExactly) {
  EXPECT_EQ(format_binary(0), "0 bytes");
  EXPECT_EQ(format_binary(1023), "1023 bytes");
  EXPECT_EQ(format_binary(1024), "1 KiB");
  EXPECT_EQ(format_binary(1025), "1025 bytes");
  EXPECT_EQ(format_binary(1536), "1536 bytes");
  EXPECT_EQ(format_binary(64 * 1048576), "64 MiB");
  EXPECT_EQ(format_binary(std::uint64_t{5} << 40), "5 TiB");
  EXPECT_EQ(format_binary(std::uint64_t{1} << 50), "1024 TiB");
}

TEST(Bytes, WhatIsFormattedExactlyParsesBack) {
  for (std::uint64_t bytes : {1ull, 1023ull, 1024ull, 1048576ull, 268435456ull, 1ull << 40}) {
    std::string text = format_binary(bytes);
    if (text.ends_with(" bytes")) text = text.substr(0, text.find(' '));
    EXPECT_EQ(parse_bytes(text, "x"), bytes);
  }
}

TEST(Bytes, ParsesTimes) {
  EXPECT_DOUBLE_EQ(parse_seconds("300s", "--timeout"), 300);
  EXPECT_DOUBLE_EQ(parse_seconds("300", "--timeout"), 300);
  EXPECT_DOUBLE_EQ(parse_seconds("5min", "--timeout"), 300);
  EXPECT_DOUBLE_EQ(parse_seconds("2h", "--timeout"), 7200);
  EXPECT_DOUBLE_EQ(parse_seconds("500ms", "--timeout"), 0.5);
  EXPECT_DOUBLE_EQ(parse_seconds("1.5 s", "--timeout"), 1.5);
  for (const char* text : {"", "s", "-1s", "5 weeks", "5m", "inf", "1e3s"}) {
    Error error = thrown_error([&] { parse_seconds(text, "--timeout"); });
    EXPECT_EQ(error.status(), Status::usage) << text;
    EXPECT_THAT(error.message(), HasSubstr("--timeout")) << text;
  }
}

}  // namespace
}  // namespace slabload
