#include "report/json_text.h"

#include "base/error.h"
#include "base/utf8.h"

namespace slabload {

std::string json_text(std::string_view text) {
  return is_utf8(text) ? std::string(text) : printable(text);
}

std::string dump(const Json& json) {
  // `replace` never meets a broken byte here; it keeps a forgotten json_text() from ending the job after the
  // work is done.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string hex64(std::uint64_t value) {
  return fmt::format("{:016x}", value);
}

}  // namespace slabload
