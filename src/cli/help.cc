#include "cli/help.h"

#include <boost/program_options.hpp>
#include <sstream>

#include "base/error.h"
#include "base/version.h"
#include "cli/verb_table.h"

namespace slabload {
namespace {

namespace po = boost::program_options;

// A line per option, laid out by Boost.
std::string options_text(unsigned verb) {
  po::options_description description("Options", 110, 72);
  for (const OptionSpec& option : option_table()) {
    if (!(option.verbs & verb)) continue;
    std::string names = option.name == std::string("help") ? "help,h" : option.name;
    if (option.arity == Arity::flag) {
      description.add_options()(names.c_str(), option.text.c_str());
    } else {
      description.add_options()(names.c_str(), po::value<std::string>()->value_name(option.value),
                                option.text.c_str());
    }
  }
  std::ostringstream out;
  out << description;
  return out.str();
}

std::string overview() {
  std::string out =
      "slabload loads the checkpoint of a large model into the memory of many ranks: every rank reads only\n"
      "its own part, once.\n\n"
      "usage: slabload VERB [arguments]\n\n";
  for (const VerbSpec& verb : verb_table()) {
    if (!verb.available) continue;
    std::string row =
        fmt::format("  {:<9} {}{}", verb.name, verb.synopsis, verb.mpi ? "  (alone, mpirun or srun)" : "");
    out += row.substr(0, row.find_last_not_of(' ') + 1) + "\n";
  }
  out +=
      "\nCKPT is an HDF5 file, or a safetensors file, folder or index.json.\n"
      "'slabload help VERB' prints the usage of a verb.\n"
      "Exit status: 0 done, 1 wrong data, 2 usage or a plan that does not fit, 3 a file, 4 another rank or\n"
      "the fabric, 5 internal error.\n";
  return out;
}

}  // namespace

std::string help_text(const std::string& topic) {
  if (topic.empty()) return overview();
  const VerbSpec* verb = find_verb(topic);
  if (verb == nullptr || !verb->available) {
    fail(Status::usage, "help: '{}' is not a verb of this version; 'slabload help' lists the verbs",
         printable(topic));
  }
  std::string out =
      fmt::format("usage: slabload {}{}{}\n\n{}\n\n{}\n", verb->name, *verb->synopsis ? " " : "",
                  verb->synopsis, verb->summary, options_text(verb->bit));
  if (verb->bit != kHelp && verb->bit != kVersionVerb) {
    out +=
        "Sizes take KiB MiB GiB (powers of 1024) and KB MB GB (powers of 1000). An option may also come\n"
        "from the environment as SLABLOAD_<OPTION> (upper case, '-' written '_', one value) or from the\n"
        "file of --config; the command line wins over the environment, the environment over the file.\n\n";
  }
  return out + fmt::format("Example:\n  {}\n", verb->example);
}

std::string version_text() {
  return fmt::format("slabload {}\n", kVersion);
}

}  // namespace slabload
