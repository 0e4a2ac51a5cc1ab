// Is a byte string text?
#pragma once

#include <cstddef>
#include <string_view>

namespace slabload {

// Bytes of the UTF-8 character that `text` starts with, or 0 if it starts with none (RFC 3629: no overlong
// forms, no surrogates, nothing beyond U+10FFFF).
std::size_t utf8_length(std::string_view text);

bool is_utf8(std::string_view text);

}  // namespace slabload
