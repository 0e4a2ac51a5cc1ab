#include "index/selection.h"

#include <algorithm>

#include "base/error.h"
#include "base/glob.h"

namespace slabload {
namespace {

bool matches(const std::string& glob, const TensorMeta& t) {
  return glob_match(glob, t.name) ||
         std::any_of(t.aliases.begin(), t.aliases.end(), [&](const auto& a) { return glob_match(glob, a); });
}

bool matches_any(const std::vector<std::string>& globs, const TensorMeta& t) {
  return std::any_of(globs.begin(), globs.end(), [&](const auto& g) { return matches(g, t); });
}

// A plain name that is in the file but can't be a tensor deserves its reason, also where other globs match.
void check_globs(const TensorIndex& index, const Selection& selection) {
  for (const std::string& glob : selection.select) {
    if (std::any_of(index.tensors.begin(), index.tensors.end(),
                    [&](const auto& t) { return matches(glob, t); }))
      continue;
    for (const SkippedObject& object : index.skipped) {
      if (glob_match(glob, object.name)) {
        fail(Status::file, "{}: '{}' cannot be loaded as a tensor: {}", index.path, printable(object.name),
             object.reason);
      }
    }
    fail(Status::usage, "{}: --select '{}' matches no tensor; 'slabload inspect --tensors' lists the names",
         index.path, printable(glob));
  }
}

// Throws if the selection takes the object in.
void refuse(const TensorIndex& index, const SkippedObject& object, const Selection& selection) {
  if (!selection.select.empty() && !glob_match_any(selection.select, object.name)) return;
  if (glob_match_any(selection.exclude, object.name)) return;
  fail(Status::file, "{}: '{}' cannot be taken as a tensor: {}; --exclude leaves it out", printable(index.path),
       printable(object.name), object.reason);
}

}  // namespace

TensorIndex select_tensors(TensorIndex index, const Selection& selection) {
  check_globs(index, selection);
  for (const SkippedObject& object : index.skipped) {
    if (object.damaged()) refuse(index, object, selection);
  }
  std::size_t before = index.tensors.size();
  std::erase_if(index.tensors, [&](const TensorMeta& t) {
    return (!selection.select.empty() && !matches_any(selection.select, t)) ||
           matches_any(selection.exclude, t);
  });
  if (index.tensors.empty()) {
    fail(before == 0 ? Status::file : Status::usage, "{}: {}", index.path,
         before == 0 ? "there is no tensor in it" : "--exclude leaves no tensor to load");
  }
  return index;
}

void refuse_skipped(const TensorIndex& index, const Selection& selection) {
  for (const SkippedObject& object : index.skipped) refuse(index, object, selection);
}

}  // namespace slabload
