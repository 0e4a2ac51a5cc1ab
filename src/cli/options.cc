#include "cli/options.h"

#include <boost/program_options.hpp>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/error.h"
#include "cli/verb_table.h"

namespace slabload {
namespace {

namespace po = boost::program_options;

// One option's values and what to call it in a message: "--staging", "SLABLOAD_STAGING", "run.ini: staging".
struct Given {
  std::vector<std::string> values;
  std::string what;
};
using GivenOptions = std::map<std::string, Given>;

std::string suggestion(const std::string& word, const std::vector<std::string>& known, const char* prefix) {
  std::string name = closest(word, known);
  return name.empty() ? "" : fmt::format("; did you mean {}{}?", prefix, name);
}

std::vector<std::string> option_names(unsigned verbs) {
  std::vector<std::string> names;
  for (const OptionSpec& option : option_table()) {
    if (option.verbs & verbs) names.push_back(option.name);
  }
  return names;
}

[[noreturn]] void unknown_option(const VerbSpec& verb, std::string name) {
  name.erase(0, name.find_first_not_of('-'));
  for (const LaterOption& later : later_options()) {
    if (name == later.name && (later.verbs & verb.bit)) {
      fail(Status::usage, "{} --{} is not part of this version", verb.name, name);
    }
  }
  bool elsewhere = find_option(name, ~0u) != nullptr;
  fail(Status::usage, "{}: {} --{}{}; 'slabload help {}' lists its options", verb.name,
       elsewhere ? "does not take the option" : "unknown option", printable(name),
       elsewhere ? "" : suggestion(name, option_names(verb.bit), "--"), verb.name);
}

// What Boost needs to know of the verb's options to split the command line.
po::options_description describe(const VerbSpec& verb) {
  po::options_description description;
  for (const OptionSpec& option : option_table()) {
    if (!(option.verbs & verb.bit)) continue;
    std::string names = option.name == std::string("help") ? "help,h" : option.name;
    if (option.arity == Arity::flag) {
      description.add_options()(names.c_str(), "");
    } else {
      description.add_options()(names.c_str(), po::value<std::string>(), "");
    }
  }
  return description;
}

// The options of the command line; positionals go to `positionals`.
GivenOptions from_command_line(const VerbSpec& verb, const std::vector<std::string>& arguments,
                               std::vector<std::string>& positionals) {
  GivenOptions given;
  po::options_description description = describe(verb);
  try {
    // No abbreviations: a script must not change its meaning when an option is added.
    int style = po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
    po::parsed_options parsed = po::command_line_parser(arguments).options(description).style(style).run();
    for (const po::option& item : parsed.options) {
      if (item.string_key.empty()) {
        positionals.insert(positionals.end(), item.value.begin(), item.value.end());
        continue;
      }
      Given& entry = given[item.string_key];
      entry.what = "--" + item.string_key;
      const OptionSpec* option = find_option(item.string_key, verb.bit);
      if (option->arity == Arity::once && !entry.values.empty()) {
        fail(Status::usage, "{}: given twice", entry.what);
      }
      entry.values.insert(entry.values.end(), item.value.begin(), item.value.end());
    }
  } catch (const po::unknown_option& error) {
    unknown_option(verb, error.get_option_name());
  } catch (const po::error& error) {
    fail(Status::usage, "{}: {}", verb.name, printable(error.what()));
  }
  return given;
}

GivenOptions from_environment(const VerbSpec& verb, const Environment& environment) {
  GivenOptions given;
  for (const OptionSpec& option : option_table()) {
    if (!(option.verbs & verb.bit) || option.name == std::string("help")) continue;
    std::string variable = "SLABLOAD_";
    for (const char* c = option.name; *c != '\0'; ++c) {
      variable += *c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(*c)));
    }
    std::optional<std::string> value = environment(variable);
    if (value && !value->empty()) given[option.name] = {{*value}, variable};
  }
  return given;
}

GivenOptions from_config(const VerbSpec& verb, const std::string& path) {
  std::ifstream file(path);
  if (!file) fail(Status::file, "--config {}: cannot be opened: {}", printable(path), errno_text(errno));
  file.peek();
  if (file.bad()) fail(Status::file, "--config {}: cannot be read", printable(path));
  file.clear();
  po::parsed_options parsed(nullptr);
  try {
    parsed = po::parse_config_file(file, po::options_description(), true);
  } catch (const po::error& error) {
    fail(Status::usage, "--config {}: {}", printable(path), printable(error.what()));
  }
  GivenOptions given;
  for (const po::option& item : parsed.options) {
    const std::string& name = item.string_key;
    if (find_option(name, ~0u) == nullptr || name == "config" || name == "help") {
      fail(Status::usage, "--config {}: unknown option '{}'{}", printable(path), printable(name),
           suggestion(name, option_names(~0u), ""));
    }
    const OptionSpec* option = find_option(name, verb.bit);
    if (option == nullptr) continue;  // of another verb: one file serves them all
    Given& entry = given[name];
    entry.what = fmt::format("{}: {}", printable(path), name);
    if (option->arity != Arity::repeated && !entry.values.empty())
      fail(Status::usage, "{}: given twice", entry.what);
    entry.values.insert(entry.values.end(), item.value.begin(), item.value.end());
  }
  return given;
}

bool flag_value(const Given& given) {
  if (given.values.empty()) return true;  // --flag
  const std::string& text = given.values.front();
  if (text == "1" || text == "true" || text == "yes" || text == "on") return true;
  if (text == "0" || text == "false" || text == "no" || text == "off") return false;
  fail(Status::usage, "{}: '{}' is not true or false", given.what, printable(text));
}

void apply(const VerbSpec& verb, const GivenOptions& given, RunOptions& options) {
  for (const auto& [name, entry] : given) {
    const OptionSpec* option = find_option(name, verb.bit);
    if (option->apply == nullptr) continue;
    if (option->arity == Arity::flag) {
      if (flag_value(entry)) option->apply(options, {}, entry.what);
    } else {
      option->apply(options, entry.values, entry.what);
    }
  }
}

void set_positionals(const VerbSpec& verb, const std::vector<std::string>& positionals, RunOptions& options) {
  std::size_t most = verb.positional == nullptr ? 0 : 1;
  if (positionals.size() > most) {
    fail(Status::usage, "{}: unexpected argument '{}'; usage: slabload {} {}", verb.name,
         printable(positionals[most]), verb.name, verb.synopsis);
  }
  if (!positionals.empty()) options.checkpoint = positionals.front();
}

void require(const VerbSpec& verb, bool present, const char* what) {
  if (!present) {
    fail(Status::usage, "{}: {} is missing; usage: slabload {} {}", verb.name, what, verb.name,
         verb.synopsis);
  }
}

// What has to be there, and what goes together.
void check_complete(const VerbSpec& verb, const GivenOptions& given, RunOptions& options) {
  bool has_checkpoint = !options.checkpoint.empty();
  switch (verb.bit) {
    case kGenerate:
      require(verb, !options.table.empty(), "--table");
      require(verb, !options.out.empty(), "--out");
      break;
    case kImport:
      require(verb, has_checkpoint, "SRC");
      require(verb, !options.out.empty(), "--out");
      break;
    case kExport:
      require(verb, has_checkpoint, "CKPT");
      require(verb, !options.out.empty(), "--out");
      break;
    case kPlan:
      require(verb, has_checkpoint || !options.table.empty(), "CKPT or --table");
      if (has_checkpoint && !options.table.empty()) {
        fail(Status::usage, "plan: {} and a checkpoint are both given; give one of them",
             given.at("table").what);
      }
      for (const char* whole : {"svg", "statistics", "full"}) {
        if (given.count("explain") && given.count(whole)) {
          fail(Status::usage, "plan: {} is about one tensor, and {} about all; give one of them", given.at("explain").what,
               given.at(whole).what);
        }
      }
      break;
    case kBench:
      require(verb, has_checkpoint, "CKPT");
      if (given.count("strategy") && given.count("strategies")) {
        fail(Status::usage, "bench: {} and {} are both given; give one of them", given.at("strategy").what,
             given.at("strategies").what);
      }
      if (given.count("strategy")) options.strategies = {options.strategy};
      if (options.strategies.empty())
        options.strategies = {"slab", "rank0-broadcast", "rank0-full", "every-rank"};
      break;
    case kSave:
      require(verb, !options.from.empty() || !options.stage_in.empty(), "--from or --stage-in");
      require(verb, !options.out.empty(), "--out");
      if (!options.from.empty() && !options.stage_in.empty()) {
        fail(Status::usage, "save: {} and {} are both given; give one of them", given.at("from").what,
             given.at("stage-in").what);
      }
      break;
    default:
      require(verb, has_checkpoint, "CKPT");
  }
}

// Whether both are one name. Every rank asks, so no file is looked at; a device such as /dev/stdout takes more than one report.
bool same_name(const std::string& a, const std::string& b) {
  std::error_code none;
  const auto normal = [&](const std::string& path) { return std::filesystem::absolute(path, none).lexically_normal(); };
  return normal(a) == normal(b) && normal(a).parent_path() != "/dev";
}

// A report must replace nothing that the run reads or makes. Other names of a checkpoint are refused where it is written.
void check_reports(const VerbSpec& verb, const GivenOptions& given, const RunOptions& options) {
  std::vector<std::pair<std::string, std::string>> taken;  // what it is, its path
  if (!options.checkpoint.empty()) taken.emplace_back("the checkpoint", options.checkpoint);
  for (const char* name : {"from", "out", "against", "table", "layout", "expect", "config"}) {
    if (auto option = given.find(name); option != given.end()) taken.emplace_back(option->second.what, option->second.values.front());
  }
  for (const char* name : {"report", "timeline", "json", "csv", "plot", "svg"}) {
    auto option = given.find(name);
    if (option == given.end() || option->second.values.empty() || option->second.values.front().empty()) continue;
    const std::string& path = option->second.values.front();
    for (const auto& [what, other] : taken) {
      if (same_name(path, other))
        fail(Status::usage, "{}: {} and {} are one file, '{}'", verb.name, option->second.what, what, printable(path));
    }
    taken.emplace_back(option->second.what, path);
  }
}

const VerbSpec& verb_named(const std::string& name) {
  const VerbSpec* verb = find_verb(name);
  if (verb == nullptr) {
    std::vector<std::string> known;
    for (const VerbSpec& v : verb_table()) {
      if (v.available) known.push_back(v.name);
    }
    fail(Status::usage, "unknown verb '{}'{}; 'slabload help' lists the verbs", printable(name),
         suggestion(name, known, ""));
  }
  if (!verb->available)
    fail(Status::usage, "{}: not part of this version; 'slabload help' lists the verbs", name);
  return *verb;
}

}  // namespace

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

CommandLine parse_command_line(const std::vector<std::string>& arguments, const Environment& environment) {
  CommandLine line;
  if (arguments.empty()) fail(Status::usage, "no verb given; 'slabload help' lists the verbs");
  std::string first = arguments.front();
  if (first == "--help" || first == "-h") first = "help";
  if (first == "--version") first = "version";
  if (first.starts_with("-")) {
    fail(Status::usage, "the verb comes first, then its options, not '{}'; 'slabload help' lists the verbs",
         printable(first));
  }
  const VerbSpec& verb = verb_named(first);
  line.options.verb = verb.name;

  std::vector<std::string> positionals;
  GivenOptions given = from_command_line(verb, {arguments.begin() + 1, arguments.end()}, positionals);
  set_positionals(verb, positionals, line.options);
  if (verb.bit == kHelp || given.count("help")) {
    line.help = true;
    line.help_topic = verb.bit == kHelp ? line.options.checkpoint : verb.name;
    if (!line.help_topic.empty()) verb_named(line.help_topic);
    return line;
  }
  if (verb.bit == kVersionVerb) return line;

  given.merge(from_environment(verb, environment));  // merge keeps what is there already
  if (auto config = given.find("config"); config != given.end()) {
    given.merge(from_config(verb, config->second.values.front()));
  }
  apply(verb, given, line.options);
  check_complete(verb, given, line.options);
  check_reports(verb, given, line.options);
  return line;
}

bool needs_mpi(const std::string& verb) {
  const VerbSpec* spec = find_verb(verb);
  return spec != nullptr && spec->available && spec->mpi;
}

}  // namespace slabload
