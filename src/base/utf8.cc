#include "base/utf8.h"

namespace slabload {

std::size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  auto first = byte(0);
  if (first < 0x80) return 1;
  std::size_t length = first >= 0xc2 && first <= 0xdf   ? 2
                       : (first & 0xf0) == 0xe0         ? 3
                       : first >= 0xf0 && first <= 0xf4 ? 4
                                                        : 0;
  if (length == 0 || text.size() < length) return 0;
  // Overlong forms, surrogates and code points beyond the last show in the second byte.
  unsigned low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  unsigned high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < low || byte(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  return length;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace slabload
