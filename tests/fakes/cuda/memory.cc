#include "memory.h"

#include <algorithm>
#include <cstring>

#include "settings.h"
#include "violation.h"

namespace fakecuda {
namespace {

// More than a page before, so that addresses are aligned to 256 bytes only.
constexpr std::uint64_t front_zone = page + 256;
constexpr std::uint64_t back_zone = page;
constexpr int zone_byte = 0xC3;
constexpr int poison_byte = 0xA5;

std::uint64_t mapped_begin(const Block& block) {
  return block.begin - front_zone;
}
std::uint64_t mapped_end(const Block& block) {
  return page_ceil(block.end() + back_zone);
}

DeviceMemory* kept = nullptr;

}  // namespace

DeviceMemory& device_memory() {
  if (!kept) kept = new DeviceMemory;
  return *kept;
}

DeviceMemory* device_memory_if_used() {
  return kept;
}

bool DeviceMemory::has_room(std::uint64_t bytes) const {
  return bytes <= settings().memory && used() <= settings().memory - bytes;
}

std::uint64_t DeviceMemory::allocate(std::uint64_t bytes) {
  if (!has_room(bytes)) return 0;
  const std::uint64_t begin = arena_.take(front_zone + bytes + back_zone) + front_zone;
  blocks_.add(begin, bytes);
  peak_ = std::max(peak_, used());
  const std::uint64_t end = mapped_end(*blocks_.before(begin));
  std::memset(arena_.alias(begin - front_zone), zone_byte, front_zone);
  std::memset(arena_.alias(begin), poison_byte, bytes);
  std::memset(arena_.alias(begin + bytes), zone_byte, end - begin - bytes);
  return begin;
}

void DeviceMemory::free(std::uint64_t address) {
  Block& block = blocks_.to_free(address, "cudaFree");
  check_zones(block);
  blocks_.end(block);
  arena_.release(mapped_begin(block), mapped_end(block) - mapped_begin(block));
}

bool DeviceMemory::charge(std::uint64_t bytes) {
  if (!has_room(bytes)) return false;
  charged_ += bytes;
  peak_ = std::max(peak_, used());
  return true;
}

void DeviceMemory::uncharge(std::uint64_t bytes) {
  if (bytes > charged_)
    violation("NCCL gives back %zu bytes of %zu", std::size_t{bytes}, std::size_t{charged_});
  charged_ -= bytes;
}

void DeviceMemory::check_zones(const Block& block) {
  const auto check = [&](std::uint64_t begin, std::uint64_t end) {
    const std::byte* const alias = arena_.alias(begin);
    for (std::uint64_t i = 0; i < end - begin; ++i)
      if (alias[i] != std::byte{zone_byte})
        violation("out of bounds: something wrote beside %s, at offset %lld of it",
                  blocks_.name(block).c_str(), static_cast<long long>(begin + i - block.begin));
  };
  check(mapped_begin(block), block.begin);
  check(block.end(), mapped_end(block));
}

void DeviceMemory::suspect(std::uint64_t address) {
  if (blocks_.find(address, 0)) suspects_.push_back(address);
}

void DeviceMemory::check_red_zones(bool all) {
  if (all) blocks_.each_live([&](const Block& block) { check_zones(block); });
  for (const std::uint64_t address : suspects_)
    if (const Block* block = blocks_.find(address, 0)) check_zones(*block);
  suspects_.clear();
}

std::vector<std::string> DeviceMemory::leaks() {
  std::vector<std::string> leaks = blocks_.leaks();
  if (charged_ > 0) leaks.push_back("memory of NCCL (" + std::to_string(charged_) + " bytes)");
  return leaks;
}

}  // namespace fakecuda
