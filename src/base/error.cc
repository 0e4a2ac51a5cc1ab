#include "base/error.h"

#include <cstring>

namespace slabload {

std::string errno_text(int code) {
  char buffer[256];
  return strerror_r(code, buffer, sizeof buffer);
}

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f || c == '\\') {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace slabload
