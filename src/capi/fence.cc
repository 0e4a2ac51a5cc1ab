#include "capi/fence.h"

#include <map>
#include <string>
#include <vector>

#include "app/option_table.h"

namespace slabload::capi {

RunOptions parse_options(const char* verb, const slabload_option* given, std::uint64_t count) {
  if (count != 0) need(given, "options");
  std::map<std::string, std::vector<std::string>> values;
  for (std::uint64_t i = 0; i < count; ++i) {
    need(given[i].name, "options[].name");
    need(given[i].value, "options[].value");
    values[given[i].name].push_back(given[i].value);
  }
  RunOptions options;
  options.verb = verb;
  const unsigned bit = options.verb == "save" ? kSave : kLoad;
  for (const auto& [name, texts] : values) {
    const OptionSpec* option = find_option(name, bit);
    // Those without a value to apply (config, help) are matters of the command line.
    if (option == nullptr || option->apply == nullptr)
      fail(Status::usage, "no option is called '{}'; 'slabload help {}' lists them", printable(name), verb);
    if (option->arity != Arity::repeated && texts.size() > 1)
      fail(Status::usage, "the option '{}' is given twice", name);
    if (option->arity == Arity::flag && texts.front() != "true")
      fail(Status::usage, "the option '{}' takes no value but true, not '{}'", name, printable(texts.front()));
    option->apply(options, texts, "--" + name);
  }
  return options;
}

}  // namespace slabload::capi
