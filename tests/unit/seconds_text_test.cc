// Times as people read them.
#include "report/seconds_text.h"

#include <gtest/gtest.h>

namespace slabload {
namespace {

TEST(SecondsText, HasTheUnitThatSuits) {
  const struct {
    double seconds;
    const char* text;
  } cases[] = {{0, "0 s"},         {1e-12, "0 s"},          {2e-8, "0.02 us"},    {12.5e-6, "12.5 us"},
               {125e-6, "125 us"}, {999.94e-6, "999.9 us"}, {999.96e-6, "1 ms"},  {9.3451e-3, "9.345 ms"},
               {0.5, "500 ms"},    {0.99996, "1 s"},        {1.02345, "1.023 s"}, {53.546, "53.55 s"},
               {999.96, "1000 s"}, {123456.7, "123457 s"}};
  for (const auto& c : cases) EXPECT_EQ(seconds_text(c.seconds), c.text) << c.seconds;
}

}  // namespace
}  // namespace slabload
