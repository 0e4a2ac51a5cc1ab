#include "stats.h"

#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <vector>

#include "event.h"
#include "fault.h"
#include "memory.h"
#include "pinned.h"
#include "settings.h"
#include "stream.h"
#include "violation.h"

namespace fakecuda {
namespace {

pid_t watched = 0;

using Figures = std::map<std::string, std::uint64_t>;

Figures& moved_bytes() {
  static auto* const kept =
      new Figures{{"h2d", 0},       {"d2h", 0},      {"d2d", 0}, {"nccl_allgather", 0}, {"nccl_broadcast", 0},
                  {"nccl_send", 0}, {"nccl_recv", 0}};
  return *kept;
}

Figures& other_figures() {
  static auto* const kept = new Figures;
  return *kept;
}

std::vector<std::string> leaks() {
  std::vector<std::string> all;
  const auto add = [&all](const std::vector<std::string>& more) {
    all.insert(all.end(), more.begin(), more.end());
  };
  if (DeviceMemory* device = device_memory_if_used()) add(device->leaks());
  if (PinnedMemory* pinned = pinned_memory_if_used()) add(pinned->blocks().leaks());
  add(stream_leaks());
  add(event_leaks());
  return all;
}

void write_map(std::ofstream& out, const char* key, const Figures& values) {
  out << "\"" << key << "\": {";
  const char* separator = "";
  for (const auto& [name, value] : values) {
    out << separator << "\"" << name << "\": " << value;
    separator = ", ";
  }
  out << "}";
}

void write_stats(const std::vector<std::string>& left) {
  const std::string path = settings().stats_folder + "/rank-" + std::to_string(rank()) + ".json";
  std::ofstream out(path);
  const DeviceMemory* const device = device_memory_if_used();
  PinnedMemory* const pinned = pinned_memory_if_used();
  out << "{\"peak_device_bytes\": " << (device ? device->peak() : 0)
      << ", \"peak_pinned_bytes\": " << (pinned ? pinned->blocks().peak() : 0) << ", ";
  write_map(out, "calls", call_counts());
  out << ", \"runs\": [";
  const char* comma = "";
  for (const auto& [function, calls] : call_runs()) {
    out << comma << "[\"" << function << "\", " << calls << "]";
    comma = ", ";
  }
  out << "], \"total_calls\": " << total_calls() << ", ";
  write_map(out, "bytes", moved_bytes());
  out << ", ";
  write_map(out, "figures", other_figures());
  out << ", \"leaks\": [";
  const char* separator = "";
  for (const std::string& leak : left) {
    out << separator << "\"" << leak << "\"";
    separator = ", ";
  }
  out << "]}\n";
  if (!out.flush()) violation("the figures cannot be written to %s", path.c_str());
}

void at_exit(int status, void*) {
  if (watched != getpid()) return;
  const std::vector<std::string> left = leaks();
  if (!settings().stats_folder.empty()) write_stats(left);
  if (DeviceMemory* device = device_memory_if_used()) device->check_red_zones(true);
  if (PinnedMemory* pinned = pinned_memory_if_used()) pinned->check_red_zones();
  if (status != 0 || left.empty() || settings().leaks_allowed) return;
  std::string text;
  for (const std::string& leak : left) text += (text.empty() ? "" : "; ") + leak;
  std::fflush(nullptr);
  violation("leaked: %s", text.c_str());
}

// Handlers run in the reverse order of their registration, and a library's constructor runs before all code
// of the program: this handler comes after the destructors of the program's statics. All that it uses lives
// for ever.
__attribute__((constructor)) void register_exit() {
  on_exit(at_exit, nullptr);
}

}  // namespace

void count_figure(const std::string& figure, std::uint64_t amount) {
  (moved_bytes().count(figure) ? moved_bytes() : other_figures())[figure] += amount;
}

void watch_exit() {
  watched = getpid();
}

}  // namespace fakecuda
