#include "base/error.h"

#include <cstring>

#include "base/utf8.h"

namespace slabload {

std::string errno_text(int code) {
  char buffer[256];
  return strerror_r(code, buffer, sizeof buffer);
}

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    std::size_t length = utf8_length(text);
    auto byte = static_cast<unsigned char>(text[0]);
    bool control = byte < 0x20 || byte == 0x7f || byte == '\\';
    // U+0080 to U+009F are control characters too: terminals obey them.
    if (length == 2 && byte == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0) control = true;
    std::size_t taken = length == 0 ? 1 : length;
    for (char c : text.substr(0, taken)) {
      if (control || length == 0) {
        out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
      } else {
        out += c;
      }
    }
    text.remove_prefix(taken);
  }
  return out;
}

}  // namespace slabload
