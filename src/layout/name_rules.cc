#include "layout/name_rules.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "layout/rules_json.h"

namespace slabload {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostBytes = 4096;

// "rules.json: rename 2 ('a.*')"
std::string place(const NameRules& rules, std::size_t rename) {
  return fmt::format("{}: rename {} ('{}')", printable(rules.source), rename + 1,
                     printable(rules.rename[rename].match));
}

std::string text_of(const Json& entry, const char* key, const std::string& where) {
  std::string text = entry[key].get<std::string>();
  if (text.empty()) fail(Status::usage, "{}: \"{}\" is empty", where, key);
  if (text.size() > kMostBytes)
    fail(Status::usage, "{}: \"{}\" is longer than {} bytes", where, key, kMostBytes);
  if (text.find('\0') != std::string::npos) fail(Status::usage, "{}: \"{}\" holds a zero byte", where, key);
  return text;
}

// Calls take(first text, second text, where) for the entries of an optional list.
template <typename Take>
void for_each_entry(const Json& json, const std::string& source, const char* list, const char* first,
                    const char* second, Take&& take) {
  if (!json.contains(list)) return;
  if (!json[list].is_array()) fail(Status::usage, "{}: \"{}\" is not a list", source, list);
  std::size_t number = 0;
  for (const Json& entry : json[list]) {
    const std::string where = fmt::format("{}: {} {}", source, list, ++number);
    if (!entry.is_object() || entry.size() != 2 || !entry.contains(first) || !entry[first].is_string() ||
        !entry.contains(second) || !entry[second].is_string()) {
      fail(Status::usage, "{}: expected {{\"{}\": TEXT, \"{}\": TEXT}}", where, first, second);
    }
    take(text_of(entry, first, where), text_of(entry, second, where), where);
  }
}

// Renames one after the other, and counts what each rule does.
class Renamer {
 public:
  explicit Renamer(const NameRules& rules) : rules_(rules), used_(rules.rename.size(), false) {}

  std::string renamed(const std::string& name) {
    for (std::size_t r = 0; r < used_.size(); ++r) {
      auto captures = rules_.rename[r].pattern.match(name);
      if (!captures) continue;
      used_[r] = true;
      std::string out = fill_captures(rules_.rename[r].replace, *captures).value();
      if (out.empty())
        fail(Status::usage, "{}: leaves no name for tensor {}", place(rules_, r), printable(name));
      return out;
    }
    return name;
  }

  // After all names; `before` are those that the file has.
  void check_all_used(const std::vector<std::string>& before) const {
    for (std::size_t r = 0; r < used_.size(); ++r) {
      if (used_[r]) continue;
      auto taken = std::find_if(before.begin(), before.end(), [&](const std::string& name) {
        return rules_.rename[r].pattern.match(name).has_value();
      });
      if (taken == before.end()) fail(Status::usage, "{}: matches no tensor", place(rules_, r));
      fail(Status::usage, "{}: renames nothing: an earlier one takes all it matches, such as {}",
           place(rules_, r), printable(*taken));
    }
  }

 private:
  const NameRules& rules_;
  std::vector<bool> used_;
};

// Whose each name is.
class NameList {
 public:
  explicit NameList(const std::string& source) : source_(source) {}

  // `before` is the tensor's name in the file. Returns false if the tensor has the name already.
  bool add(const std::string& name, std::size_t tensor, const std::string& before) {
    auto [entry, fresh] = owner_.try_emplace(name, Owner{tensor, before});
    const Owner& owner = entry->second;
    if (!fresh && owner.tensor != tensor) {
      fail(Status::usage, "{}: the tensors {} and {} would both be named {}", printable(source_),
           printable(owner.before), printable(before), printable(name));
    }
    return fresh;
  }
  std::optional<std::size_t> find(const std::string& name) const {
    auto entry = owner_.find(name);
    if (entry == owner_.end()) return std::nullopt;
    return entry->second.tensor;
  }

 private:
  struct Owner {
    std::size_t tensor;
    std::string before;
  };
  const std::string& source_;
  std::unordered_map<std::string, Owner> owner_;
};

}  // namespace

NameRules NameRules::from_json(std::string_view text, const std::string& source) {
  const std::string shown = printable(source);
  const Json json = parse_rules(text, shown);
  NameRules rules;
  rules.source = source;
  for_each_entry(json, shown, "rename", "match", "replace",
                 [&](std::string match, std::string replace, const std::string& where) {
                   check_glob(match, where);
                   auto pattern = NamePattern::parse(match);
                   if (!fill_captures(replace, std::vector<std::string_view>(pattern->captures()))) {
                     fail(Status::usage,
                          "{}: '{}': $1 to $9 stand for the {} wildcards of '{}', and $$ for a dollar", where,
                          printable(replace), pattern->captures(), printable(match));
                   }
                   rules.rename.push_back({std::move(match), *std::move(pattern), std::move(replace)});
                 });
  for_each_entry(json, shown, "alias", "name", "of",
                 [&](std::string name, std::string of, const std::string&) {
                   rules.alias.push_back({std::move(name), std::move(of)});
                 });
  return rules;
}

TensorIndex rename_tensors(TensorIndex index, const NameRules& rules) {
  if (rules.empty()) return index;
  Renamer renamer(rules);
  NameList names(rules.source);
  std::vector<std::string> before;
  for (std::size_t t = 0; t < index.tensors.size(); ++t) {
    TensorMeta& tensor = index.tensors[t];
    std::vector<std::string> kept;
    std::string name = renamer.renamed(tensor.name);
    names.add(name, t, tensor.name);
    const std::string in_file = std::exchange(tensor.name, std::move(name));
    before.push_back(in_file);
    for (std::string& alias : tensor.aliases) {
      name = renamer.renamed(alias);
      if (names.add(name, t, in_file)) kept.push_back(std::move(name));
      before.push_back(std::move(alias));
    }
    tensor.aliases = std::move(kept);
  }
  renamer.check_all_used(before);
  for (std::size_t a = 0; a < rules.alias.size(); ++a) {
    const AliasRule& alias = rules.alias[a];
    const std::string where = fmt::format("{}: alias {}: {} of {}", printable(rules.source), a + 1,
                                          printable(alias.name), printable(alias.of));
    auto owner = names.find(alias.of);
    if (!owner) fail(Status::usage, "{}: there is no tensor {}", where, printable(alias.of));
    if (auto other = names.find(alias.name)) {
      fail(Status::usage, "{}: tensor {} has the name {} already", where, shown_name(index.tensors[*other]),
           printable(alias.name));
    }
    names.add(alias.name, *owner, alias.name);
    index.tensors[*owner].aliases.push_back(alias.name);
  }
  for (TensorMeta& tensor : index.tensors) std::sort(tensor.aliases.begin(), tensor.aliases.end());
  return index;
}

std::string shown_name(const TensorMeta& tensor) {
  const bool same =
      tensor.path.empty() || tensor.path == tensor.name || tensor.path.ends_with('/' + tensor.name);
  return same ? printable(tensor.name)
              : fmt::format("{} ({} in the file)", printable(tensor.name), printable(tensor.path));
}

}  // namespace slabload
