#include "cli/near_names.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/glob.h"

namespace slabload {

std::size_t edit_distance(const std::string& a, const std::string& b, std::size_t most) {
  const std::size_t longer = std::max(a.size(), b.size()), shorter = std::min(a.size(), b.size());
  if (longer - shorter > most) return most + 1;
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    std::size_t least = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i - 1] != b[j - 1] ? 1 : 0);
      diagonal = row[j];
      row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
      least = std::min(least, row[j]);
    }
    if (least > most) return most + 1;
  }
  return std::min(row.back(), most + 1);
}

std::vector<std::string> nearest_names(const std::string& asked, const std::vector<std::string>& names,
                                       std::size_t count) {
  // Farther than this is no slip.
  const std::size_t most = asked.size() / 4 + 1;
  std::vector<std::pair<std::size_t, const std::string*>> near;
  for (const std::string& name : names) {
    const std::size_t distance = edit_distance(asked, name, most);
    if (distance <= most) {
      near.emplace_back(distance, &name);
    } else if (!asked.empty() && (name.find(asked) != std::string::npos || glob_match(asked, name))) {
      near.emplace_back(most + 1, &name);
    }
  }
  std::stable_sort(near.begin(), near.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> out;
  for (std::size_t i = 0; i < std::min(count, near.size()); ++i) out.push_back(printable(*near[i].second));
  return out;
}

}  // namespace slabload
