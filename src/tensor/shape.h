// Lengths and coordinates per dimension, 64-bit, row-major (the last dimension varies fastest).
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <optional>
#include <string>

namespace slabload {

// One number per dimension. Up to four dimensions live inside the object.
using Dims = boost::container::small_vector<std::uint64_t, 4>;

// The largest ndim we take: HDF5's own limit.
inline constexpr std::size_t kMaxNdim = 32;

// A tensor's lengths. A 0-d shape has one element; a zero length makes it empty.
class Shape {
 public:
  Shape() = default;
  explicit Shape(Dims lengths) : lengths_(std::move(lengths)) {}
  Shape(std::initializer_list<std::uint64_t> lengths) : lengths_(lengths) {}

  std::size_t ndim() const { return lengths_.size(); }
  std::uint64_t operator[](std::size_t d) const { return lengths_[d]; }
  const Dims& lengths() const { return lengths_; }
  Dims& lengths() { return lengths_; }

  // The product of the lengths; the caller has checked that it fits (see checked_elements).
  std::uint64_t elements() const;
  // The product of the lengths from dimension `first` on.
  std::uint64_t elements_from(std::size_t first) const;
  // Nothing if the product of the non-zero lengths overflows 64 bits, so that no order of multiplying can.
  std::optional<std::uint64_t> checked_elements() const;

  // "(151936, 896)", "()" for a 0-d tensor.
  std::string text() const;

  bool operator==(const Shape& other) const { return lengths_ == other.lengths_; }

 private:
  Dims lengths_;
};

// "(a, b)" for any list of numbers per dimension.
std::string dims_text(const Dims& dims);

}  // namespace slabload
