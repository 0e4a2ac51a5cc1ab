// What the environment asks of the double; read once, at the first call.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fakecuda {

enum class Mode { lazy, eager, random };

struct Settings {
  int rank = 0;
  Mode mode = Mode::lazy;
  std::uint64_t seed = 0;
  int gpus = 8;              // that this process sees
  std::vector<int> visible;  // their numbers on the host, as CUDA_VISIBLE_DEVICES says
  bool driver = true;
  std::uint64_t memory = std::uint64_t{4} << 30;  // bytes of the device
  std::string faults;
  std::string stats_folder;
  int runtime_version = 0;
  bool leaks_allowed = false;
};

const Settings& settings();

}  // namespace fakecuda
