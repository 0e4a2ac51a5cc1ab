// The names a checkpoint's tensors get: checkpoints and models disagree on names, and share tensors.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "index/tensor_index.h"
#include "layout/name_pattern.h"

namespace slabload {

struct RenameRule {
  std::string match;  // a glob on the whole name
  NamePattern pattern;
  std::string replace;  // $1 to $9 stand for what the wildcards of `match` took, $$ for a dollar
};

struct AliasRule {
  std::string name;  // a new one
  std::string of;    // the tensor that fills it, by one of its new names or by an alias before this
};

struct NameRules {
  std::string source;  // for errors
  std::vector<RenameRule> rename;
  std::vector<AliasRule> alias;

  bool empty() const { return rename.empty() && alias.empty(); }

  // From the text of a rules file: "rename": [{"match": GLOB, "replace": TEXT}, ...], the first match wins,
  // and "alias": [{"name": NEW, "of": NAME}, ...]; both may be missing, other keys are passed over. Throws
  // Status::usage naming the file and the rule: a glob that is not one or is longer than 4096 bytes, a $
  // without its wildcard.
  static NameRules from_json(std::string_view text, const std::string& source);
};

// The index with its new names and aliases; `path` and the order stay as they are. A tensor's further names
// are renamed as well. Throws Status::usage if two tensors would have one name, if a rename finds no name to
// apply to, or if an alias is of no tensor; errors give the old and the new name.
TensorIndex rename_tensors(TensorIndex index, const NameRules& rules);

// The tensor's name for people, with that in the file if it is another.
std::string shown_name(const TensorMeta& tensor);

}  // namespace slabload
