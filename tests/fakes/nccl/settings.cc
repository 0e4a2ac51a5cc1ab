#include "settings.h"

#include <nccl.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>

#include "../cuda/hooks.h"

namespace fakenccl {
namespace {

std::string text_of_variable(const char* variable, const char* otherwise) {
  const char* text = std::getenv(variable);
  return text && *text ? text : otherwise;
}

double number_of(const char* variable, const char* otherwise) {
  const std::string text = text_of_variable(variable, otherwise);
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (*end != 0 || !(value >= 0)) fakecuda_violation("%s: \"%s\" is no number", variable, text.c_str());
  return value;
}

// "RANK:CODE" for another version on that rank.
int read_version() {
  const std::string text = text_of_variable("SLABLOAD_FAKE_NCCL_VERSION", "");
  if (text.empty()) return NCCL_VERSION_CODE;
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos)
    fakecuda_violation("SLABLOAD_FAKE_NCCL_VERSION: \"%s\" is not RANK:CODE", text.c_str());
  return std::atoi(text.c_str()) == fakecuda_rank() ? std::atoi(text.c_str() + colon + 1) : NCCL_VERSION_CODE;
}

std::uint64_t read_host() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return std::hash<std::string>()(text_of_variable("NCCL_HOSTID", name));
}

Settings read_settings() {
  Settings settings;
  settings.version = read_version();
  settings.memory = static_cast<std::uint64_t>(number_of("SLABLOAD_FAKE_NCCL_MEMORY", "16777216"));
  settings.deadlock_s = number_of("SLABLOAD_FAKE_DEADLOCK_S", "10");
  settings.host = read_host();
  settings.abort_fails = text_of_variable("SLABLOAD_FAKE_NCCL_ABORT", "fails") == "fails";
  settings.leaks_allowed = text_of_variable("SLABLOAD_FAKE_LEAKS", "") == "allow";
  return settings;
}

}  // namespace

const Settings& settings() {
  // Never destroyed: the check at exit comes after the destructors of statics.
  static const Settings* const read = new Settings(read_settings());
  return *read;
}

}  // namespace fakenccl
