#include "fault.h"

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <utility>
#include <vector>

#include "settings.h"
#include "violation.h"

namespace fakecuda {
namespace {

struct Rule {
  std::string function;   // * for all calls counted together
  std::uint64_t nth = 0;  // 0: every call
  std::string action;
};

struct Injected {
  std::vector<Rule> rules;
  std::map<std::string, std::uint64_t> counts;
  std::uint64_t total = 0;
  bool gave_up = false;
  std::vector<std::pair<std::string, std::uint64_t>> runs = {};
  // What the rules count from.
  std::map<std::string, std::uint64_t> counts_before = {};
  std::uint64_t total_before = 0;
};

std::vector<Rule> read_rules(const std::string& all) {
  std::vector<Rule> rules;
  std::istringstream text(all);
  for (std::string item; std::getline(text, item, ';');) {
    std::istringstream fields(item);
    std::string rank_text, function, nth, action;
    std::getline(fields, rank_text, ':');
    std::getline(fields, function, ':');
    std::getline(fields, nth, ':');
    std::getline(fields, action);
    const bool known =
        action == "hang" || action == "kill" || action == "skip" || std::atoi(action.c_str()) > 0;
    const bool counted = nth == "*" || std::atoll(nth.c_str()) > 0;
    if (!known || !counted || function.empty() || rank_text.empty())
      violation("SLABLOAD_FAKE_FAULT: \"%s\" is not RANK:FUNCTION:NTH:ACTION", item.c_str());
    if (rank_text != "*" && std::atoi(rank_text.c_str()) != rank()) continue;
    rules.push_back({function, nth == "*" ? 0 : std::stoull(nth), action});
  }
  return rules;
}

Injected& injected() {
  static Injected* const kept = new Injected{read_rules(settings().faults), {}, 0, false};
  return *kept;
}

}  // namespace

Fault next_call(const char* function) {
  Injected& now = injected();
  const std::uint64_t count = ++now.counts[function] - now.counts_before[function];
  if (now.runs.empty() || now.runs.back().first != function) now.runs.emplace_back(function, 0);
  ++now.runs.back().second;
  const std::uint64_t total = ++now.total - now.total_before;
  if (std::string(function) == "ncclCommAbort") now.gave_up = true;
  for (const Rule& rule : now.rules) {
    if (rule.function != "*" && rule.function != function) continue;
    if (rule.nth != 0 && rule.nth != (rule.function == "*" ? total : count)) continue;
    if (rule.action == "skip") return {Fault::Kind::skip, 0};
    now.gave_up = true;
    if (rule.action == "kill") kill(getpid(), SIGKILL);
    while (rule.action == "hang" || rule.action == "kill") pause();
    return {Fault::Kind::error, std::atoi(rule.action.c_str())};
  }
  return {};
}

void set_faults(const std::string& text) {
  Injected& now = injected();
  now.rules = read_rules(text);
  now.counts_before = now.counts;
  now.total_before = now.total;
}

const std::map<std::string, std::uint64_t>& call_counts() {
  return injected().counts;
}
const std::vector<std::pair<std::string, std::uint64_t>>& call_runs() {
  return injected().runs;
}
std::uint64_t total_calls() {
  return injected().total;
}
bool gave_up() {
  return injected().gave_up;
}

}  // namespace fakecuda
