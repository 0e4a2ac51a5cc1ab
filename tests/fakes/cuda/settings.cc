#include "settings.h"

#include <cuda_runtime_api.h>

#include <cerrno>
#include <cstdlib>

#include "violation.h"

namespace fakecuda {
namespace {

std::string text_of(const char* variable) {
  const char* text = std::getenv(variable);
  return text ? text : "";
}

std::uint64_t number_in(const std::string& text, const char* variable) {
  char* end = nullptr;
  errno = 0;
  const std::uint64_t value = std::strtoull(text.c_str(), &end, 10);
  if (text.empty() || text[0] < '0' || text[0] > '9' || *end != 0 || errno != 0)
    violation("%s: \"%s\" is no number", variable, text.c_str());
  return value;
}

std::uint64_t as_number(const char* variable, std::uint64_t otherwise) {
  const std::string text = text_of(variable);
  return text.empty() ? otherwise : number_in(text, variable);
}

void read_mode(Settings& settings) {
  const std::string text = text_of("SLABLOAD_FAKE_STREAMS");
  if (text.empty() || text == "lazy") return;
  if (text == "eager") {
    settings.mode = Mode::eager;
  } else if (text.rfind("random:", 0) == 0) {
    settings.mode = Mode::random;
    settings.seed = number_in(text.substr(7), "SLABLOAD_FAKE_STREAMS");
  } else {
    violation("SLABLOAD_FAKE_STREAMS: \"%s\" is none of lazy, eager, random:SEED", text.c_str());
  }
}

// "RANK:CODE" for another version on that rank.
int read_version(const char* variable, int rank, int usual) {
  const std::string text = text_of(variable);
  if (text.empty()) return usual;
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) violation("%s: \"%s\" is not RANK:CODE", variable, text.c_str());
  const int other_rank = static_cast<int>(number_in(text.substr(0, colon), variable));
  const int code = static_cast<int>(number_in(text.substr(colon + 1), variable));
  return other_rank == rank ? code : usual;
}

// Those of the host, or the part of them that CUDA_VISIBLE_DEVICES (numbers only) leaves.
void read_gpus(Settings& settings) {
  const int there = static_cast<int>(as_number("SLABLOAD_FAKE_GPUS", 8));
  std::string list = text_of("CUDA_VISIBLE_DEVICES");
  for (int gpu = 0; list.empty() && gpu < there; ++gpu) settings.visible.push_back(gpu);
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    const int gpu = static_cast<int>(number_in(list.substr(0, comma), "CUDA_VISIBLE_DEVICES"));
    if (gpu >= there) break;  // as CUDA does: what follows a wrong number is not seen either
    settings.visible.push_back(gpu);
    list.erase(0, comma == std::string::npos ? list.size() : comma + 1);
  }
  settings.gpus = static_cast<int>(settings.visible.size());
}

Settings read_settings() {
  Settings settings;
  settings.rank = rank();
  read_mode(settings);
  read_gpus(settings);
  settings.driver = as_number("SLABLOAD_FAKE_DRIVER", 1) != 0;
  settings.memory = as_number("SLABLOAD_FAKE_MEMORY", settings.memory);
  settings.faults = text_of("SLABLOAD_FAKE_FAULT");
  settings.stats_folder = text_of("SLABLOAD_FAKE_STATS");
  settings.runtime_version = read_version("SLABLOAD_FAKE_CUDA_VERSION", settings.rank, CUDART_VERSION);
  settings.leaks_allowed = text_of("SLABLOAD_FAKE_LEAKS") == "allow";
  return settings;
}

}  // namespace

const Settings& settings() {
  // Never destroyed: the check at exit comes after the destructors of statics.
  static const Settings* const read = new Settings(read_settings());
  return *read;
}

}  // namespace fakecuda
