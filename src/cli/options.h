// The command line, the environment and the configuration file, parsed into RunOptions.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/options.h"

namespace slabload {

struct CommandLine {
  RunOptions options;
  bool help = false;       // print help_text(help_topic) and do nothing else
  std::string help_topic;  // a verb, or empty for the overview
};

// The value of an environment variable, or nothing.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
Environment process_environment();

// `arguments` are argv without the program's name: the verb first, then its options and positionals. An
// option is taken from the command line, else from SLABLOAD_<OPTION> (upper case, '-' written '_'; an empty
// variable counts as not set), else from the ini-style file of --config. Both may hold options of other
// verbs; those are passed over. Values are checked for form; whether files exist is for the verb to find out.
// For bench `strategies` is never empty. Throws Status::usage; Status::file if the configuration file cannot
// be read. Not collective.
CommandLine parse_command_line(const std::vector<std::string>& arguments,
                               const Environment& environment = process_environment());

// True if the verb runs under MPI (alone it is a job of one rank); false for any other word.
bool needs_mpi(const std::string& verb);

}  // namespace slabload
