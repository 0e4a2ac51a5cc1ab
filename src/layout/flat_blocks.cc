#include "layout/flat_blocks.h"

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>

#include "base/error.h"
#include "base/narrow.h"

namespace slabload {

std::string_view flat_block(std::string_view name) {
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find_first_of("./", begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (!part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos)
      return name.substr(0, end);
    begin = end + 1;
  }
  return {};
}

void join_blocks(const TensorIndex& index, std::vector<TensorLayout>& layouts) {
  struct Group {
    std::uint64_t total = 0;
    std::string text;
  };
  std::unordered_map<std::string_view, std::map<DType, Group>> groups;
  std::vector<Group*> group_of(layouts.size(), nullptr);
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    if (!layouts[i].flat()) continue;
    const TensorMeta& tensor = index.tensors[i];
    const std::string_view block = flat_block(tensor.name);
    Group& group = groups[block][tensor.dtype];
    group_of[i] = &group;
    if (group.text.empty()) {
      group.text = fmt::format("{}{} ({})", block.empty() ? "the root" : block, block.empty() ? "" : ".",
                               dtype_name(tensor.dtype));
    }
    layouts[i].flat_before = group.total;
    if (!checked_add(group.total, tensor.elements(), &group.total)) {
      fail(Status::usage, "fsdp1: the block of tensor {} has more than 2^64 elements",
           printable(tensor.name));
    }
  }
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    if (group_of[i] == nullptr) continue;
    layouts[i].flat_total = group_of[i]->total;
    layouts[i].part_of = group_of[i]->text;
  }
}

}  // namespace slabload
