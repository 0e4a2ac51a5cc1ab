// The verbs of the command line: the parser and the help are made from this table and from
// app/option_table.h.
#pragma once

#include <string>
#include <vector>

#include "app/option_table.h"

namespace slabload {

struct VerbSpec {
  const char* name;
  unsigned bit;
  bool available;          // false: a known word that this version does not do
  bool mpi;                // uses MPI (alone it is a job of one rank)
  const char* synopsis;    // what follows the verb
  const char* positional;  // the name of its one positional, or nullptr
  const char* summary;
  const char* example;
};
const std::vector<VerbSpec>& verb_table();
// nullptr if it is no verb.
const VerbSpec* find_verb(const std::string& name);

// Options that cli.md names and this version lacks: refused by name rather than called unknown.
struct LaterOption {
  const char* name;
  unsigned verbs;
};
const std::vector<LaterOption>& later_options();

// The known word that is closest to `word`, or "" if none is close.
std::string closest(const std::string& word, const std::vector<std::string>& known);

}  // namespace slabload
