// A set of bytes, kept as disjoint ranges.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>

namespace fakecuda {

class RangeSet {
 public:
  void add(std::uint64_t begin, std::uint64_t end) {
    if (begin >= end) return;
    auto next = ranges_.upper_bound(begin);
    if (next != ranges_.begin()) {
      const auto before = std::prev(next);
      if (before->second >= begin) {
        begin = before->first;
        end = std::max(end, before->second);
        ranges_.erase(before);
      }
    }
    while (next != ranges_.end() && next->first <= end) {
      end = std::max(end, next->second);
      next = ranges_.erase(next);
    }
    ranges_[begin] = end;
  }

  // The first byte of [begin, end) that is not in the set; `end` if all are.
  std::uint64_t first_missing(std::uint64_t begin, std::uint64_t end) const {
    const auto next = ranges_.upper_bound(begin);
    if (begin >= end || next == ranges_.begin()) return begin;
    return std::max(begin, std::min(end, std::prev(next)->second));
  }

 private:
  std::map<std::uint64_t, std::uint64_t> ranges_;  // begin to end
};

}  // namespace fakecuda
