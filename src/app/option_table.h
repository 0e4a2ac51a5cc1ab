// The one table of options: the command line, its help and the C interface are all made from it.
#pragma once

#include <string>
#include <vector>

#include "app/options.h"

namespace slabload {

// A set of verbs, one bit each.
enum VerbSet : unsigned {
  kGenerate = 1u << 0,
  kImport = 1u << 1,
  kInspect = 1u << 2,
  kPlan = 1u << 3,
  kLoad = 1u << 4,
  kVerify = 1u << 5,
  kBench = 1u << 6,
  kHelp = 1u << 7,
  kVersionVerb = 1u << 8,
  kSave = 1u << 9,
  kExport = 1u << 10,
};
inline constexpr unsigned kCommon = kPlan | kLoad | kBench | kSave;

// How often an option may be given, and whether it takes a value.
enum class Arity { flag, once, repeated };

struct OptionSpec {
  const char* name;
  unsigned verbs;
  Arity arity;
  const char* value;  // what help shows for the value; nullptr for a flag
  std::string text;   // with unit and default
  // Puts the values (one unless repeated; none for a flag) into the options. `what` names the option as the
  // user wrote it. Throws Status::usage.
  void (*apply)(RunOptions& options, const std::vector<std::string>& values, const std::string& what);
};
const std::vector<OptionSpec>& option_table();
// The option of that name for a verb (a bit of VerbSet), or nullptr.
const OptionSpec* find_option(const std::string& name, unsigned verb);

}  // namespace slabload
