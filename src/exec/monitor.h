// Where a rank is: told to whoever watches that it does not stand still, and to the progress display.
#pragma once

#include <cstdint>
#include <string>

namespace slabload {

class Monitor {
 public:
  virtual ~Monitor() = default;
  // This rank is alive, in `phase` (a string literal), working on `tensor` (nullptr: none; the string
  // outlives the load).
  virtual void at(const char* phase, const std::string* tensor) = 0;
  // The same, but all this rank does in `phase` is to wait for others: whoever keeps them waiting is to be
  // told of first.
  virtual void waiting(const char* phase, const std::string* tensor) = 0;
  // Bytes this rank has read and received of all it will.
  virtual void moved(std::uint64_t done, std::uint64_t total) = 0;
};

}  // namespace slabload
