// Address space for one kind of memory, mapped twice.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fakecuda {

inline constexpr std::uint64_t page = 4096;
inline std::uint64_t page_floor(std::uint64_t value) {
  return value / page * page;
}
inline std::uint64_t page_ceil(std::uint64_t value) {
  return page_floor(value + page - 1);
}

inline std::uint64_t number_of(const void* address) {
  return reinterpret_cast<std::uint64_t>(address);
}

// One memory file: at its public addresses nothing may be touched until protect() allows it, at the alias
// everything may. Addresses and places in the file are never given out twice.
class Arena {
 public:
  explicit Arena(const char* name);

  // The next whole pages that hold `bytes`.
  std::uint64_t take(std::uint64_t bytes);
  // Gives the machine's memory back; the addresses stay taken.
  void release(std::uint64_t address, std::uint64_t bytes);
  // PROT_NONE, PROT_READ or PROT_READ | PROT_WRITE for whole pages.
  void protect(std::uint64_t address, std::uint64_t bytes, int protection);

  bool holds(std::uint64_t address) const { return address >= base_ && address < base_ + size; }
  std::byte* alias(std::uint64_t address) const { return alias_ + (address - base_); }
  int descriptor() const { return descriptor_; }
  std::uint64_t offset(std::uint64_t address) const { return address - base_; }

 private:
  static constexpr std::uint64_t size = std::uint64_t{1} << 40;
  int descriptor_ = -1;
  std::uint64_t base_ = 0;
  std::byte* alias_ = nullptr;
  std::uint64_t taken_ = 0;
};

}  // namespace fakecuda
