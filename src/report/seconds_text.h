// Estimated times, for people.
#pragma once

#include <string>

namespace slabload {

// Four digits in the unit that suits them: "0 s", "12.5 us", "9.345 ms", "53.55 s".
std::string seconds_text(double seconds);

}  // namespace slabload
