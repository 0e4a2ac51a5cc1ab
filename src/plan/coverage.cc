#include "plan/coverage.h"

namespace slabload {
namespace {

constexpr std::uint64_t kPrime = (std::uint64_t{1} << 61) - 1;

std::uint64_t multiply(std::uint64_t a, std::uint64_t b) {
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(a) * b % kPrime);
}

std::uint64_t point(std::size_t dimension, std::uint64_t position) {
  return mix_hash(0x5eed + dimension, position) % kPrime;
}

std::uint64_t signature(const Box& box) {
  std::uint64_t product = 1;
  for (std::size_t d = 0; d < box.ndim(); ++d) {
    std::uint64_t begin = point(d, box.start[d]);
    std::uint64_t end = point(d, box.start[d] + box.extent[d]);
    product = multiply(product, (begin + kPrime - end) % kPrime);
  }
  return product;
}

}  // namespace

std::uint64_t mix_hash(std::uint64_t seed, std::uint64_t value) {
  std::uint64_t x = seed * 0x9e3779b97f4a7c15 ^ (value + 0x2545f4914f6cdd1d);
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93;
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93;
  return x ^ (x >> 32);
}

void Coverage::add(const Box& box) {
  if (!box.empty()) sum_ = (sum_ + signature(box)) % kPrime;
}

bool Coverage::is_exactly(const Box& whole, std::uint64_t times) const {
  std::uint64_t wanted = whole.empty() ? 0 : multiply(signature(whole), times % kPrime);
  return sum_ == wanted;
}

}  // namespace slabload
