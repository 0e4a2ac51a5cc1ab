#include "plan/coverage.h"

namespace slabload {
namespace {

constexpr std::uint64_t kPrime = (std::uint64_t{1} << 61) - 1;

// Modulo a prime of all ones, what is above it is added to what is below.
std::uint64_t reduce(unsigned __int128 x) {
  const std::uint64_t sum = (static_cast<std::uint64_t>(x) & kPrime) + static_cast<std::uint64_t>(x >> 61);
  return sum >= kPrime ? sum - kPrime : sum;
}

// Of factors below the prime.
std::uint64_t multiply(std::uint64_t a, std::uint64_t b) {
  return reduce(static_cast<unsigned __int128>(a) * b);
}

std::uint64_t point(std::size_t dimension, std::uint64_t position) {
  return reduce(mix_hash(0x5eed + dimension, position));
}

std::uint64_t signature(const Box& box) {
  std::uint64_t product = 1;
  for (std::size_t d = 0; d < box.ndim(); ++d) {
    std::uint64_t begin = point(d, box.start[d]);
    std::uint64_t end = point(d, box.start[d] + box.extent[d]);
    product = multiply(product, reduce(begin + kPrime - end));
  }
  return product;
}

}  // namespace

void Coverage::add(const Box& box) {
  if (!box.empty()) sum_ = reduce(sum_ + signature(box));
}

void Coverage::add(const Coverage& other) { sum_ = reduce(sum_ + other.sum_); }

bool Coverage::is_exactly(const Box& whole, std::uint64_t times) const {
  std::uint64_t wanted = whole.empty() ? 0 : multiply(signature(whole), times % kPrime);
  return sum_ == wanted;
}

}  // namespace slabload
