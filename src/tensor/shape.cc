#include "tensor/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/narrow.h"

namespace slabload {

std::uint64_t Shape::elements() const {
  return elements_from(0);
}

std::uint64_t Shape::elements_from(std::size_t first) const {
  std::uint64_t product = 1;
  for (std::size_t d = first; d < lengths_.size(); ++d) product *= lengths_[d];
  return product;
}

std::optional<std::uint64_t> Shape::checked_elements() const {
  std::uint64_t product = 1;
  bool empty = false;
  for (std::uint64_t length : lengths_) {
    if (length == 0) {
      empty = true;
    } else if (!checked_multiply(product, length, &product)) {
      return std::nullopt;
    }
  }
  return empty ? 0 : product;
}

std::string dims_text(const Dims& dims) {
  return fmt::format("({})", fmt::join(dims, ", "));
}
std::string Shape::text() const {
  return dims_text(lengths_);
}

}  // namespace slabload
