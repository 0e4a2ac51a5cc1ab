// Sizes in bytes as people write them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace slabload {

inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kMiB = 1024 * kKiB;
inline constexpr std::uint64_t kGiB = 1024 * kMiB;

// "64MiB", "5GB", "1.5 GiB", "4096": KiB MiB GiB TiB are powers of two, KB MB GB TB powers of ten, no unit or
// B is bytes. Throws Status::usage naming `what` if the text is not a size or does not fit 64 bits.
std::uint64_t parse_bytes(std::string_view text, std::string_view what);

// "988.1 MB": powers of ten, four significant digits at most.
std::string format_bytes(std::uint64_t bytes);

// "64 MiB" if it is a whole number of a binary unit, else the exact bytes. For limits that were set by a
// user.
std::string format_binary(std::uint64_t bytes);

// "300s", "5min", "500ms", "2h" or plain seconds. Throws Status::usage naming `what`.
double parse_seconds(std::string_view text, std::string_view what);

}  // namespace slabload
