// Exactly-once coverage in constant memory.
//
// A multiset of boxes covers every cell of a box B exactly once if and only if the sum of their indicator
// functions is B's. Differenced along every dimension, an indicator becomes a signed sum of corner points:
// the product over dimensions of (delta(begin) - delta(end)). Replacing delta at position p of dimension d by
// a random number h(d, p) modulo the prime 2^61 - 1 turns the sum into one number per tensor: equal sums with
// probability of a miss below ndim / 2^61 for a fixed input (the identity test for multilinear polynomials).
#pragma once

#include <cstdint>

#include "tensor/box.h"

namespace slabload {

class Coverage {
 public:
  void add(const Box& box);
  void add(const Coverage& other);
  // True if the boxes added so far cover `whole` exactly once and nothing else. Empty boxes do not count.
  bool is_exactly(const Box& whole) const { return is_exactly(whole, 1); }
  // The same for covering every element `times` times.
  bool is_exactly(const Box& whole, std::uint64_t times) const;
  // True if both cover every element equally often.
  bool operator==(const Coverage& other) const { return sum_ == other.sum_; }

 private:
  std::uint64_t sum_ = 0;
};

// A 64-bit hash to sum over: h(a, b, ...) of whatever identifies a thing.
inline std::uint64_t mix_hash(std::uint64_t seed, std::uint64_t value) {
  std::uint64_t x = seed * 0x9e3779b97f4a7c15 ^ (value + 0x2545f4914f6cdd1d);
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93;
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93;
  return x ^ (x >> 32);
}

}  // namespace slabload
