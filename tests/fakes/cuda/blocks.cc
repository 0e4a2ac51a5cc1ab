#include "blocks.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "fault.h"
#include "stream.h"
#include "violation.h"

namespace fakecuda {

void Blocks::add(std::uint64_t begin, std::uint64_t bytes) {
  Block block;
  block.number = blocks_.size() + 1;
  block.begin = begin;
  block.bytes = bytes;
  blocks_.emplace(begin, std::move(block));
  used_ += bytes;
  peak_ = std::max(peak_, used_);
}

Block& Blocks::to_free(std::uint64_t address, const char* function) {
  Block* const block = before(address);
  if (!block || block->begin != address)
    violation("%s of %s, which was never given out", function, describe(address).c_str());
  if (!block->live) violation("double free: %s of %s", function, describe(address).c_str());
  if (gave_up()) run_everything();
  block->history.forget(host_clock());
  if (const Label* label = block->history.any(); label && !gave_up())
    violation("freed in use: %s of %s while %s may still run: the host has not waited for it", function,
              describe(address).c_str(), label->text().c_str());
  return *block;
}

void Blocks::end(Block& block) {
  block.live = false;
  block.history = {};
  block.written = {};
  used_ -= block.bytes;
}

Block& Blocks::holding(const Region& region, const Label& label) {
  Block* const block = before(region.begin);
  if (!block) violation("out of bounds: %s uses %s", label.text().c_str(), describe(region.begin).c_str());
  if (!block->live && region.begin < block->end())
    violation("use after free: %s uses %s", label.text().c_str(), describe(region.begin).c_str());
  if (region.begin >= block->end() || region.end() > block->end())
    violation("out of bounds: %s uses %s of %s", label.text().c_str(), region.text_from(block->begin).c_str(),
              name(*block).c_str());
  return *block;
}

Block* Blocks::find(std::uint64_t address, std::uint64_t bytes) {
  Block* const block = before(address);
  if (!block || !block->live || address > block->end() || bytes > block->end() - address) return nullptr;
  return block;
}

Block* Blocks::before(std::uint64_t address) {
  const auto next = blocks_.upper_bound(address);
  return next == blocks_.begin() ? nullptr : &std::prev(next)->second;
}

void Blocks::forget(const Clock& host) {
  each_live([&](Block& block) { block.history.forget(host); });
}

std::string Blocks::name(const Block& block) const {
  return std::string(kind_) + " allocation " + std::to_string(block.number) + " (" +
         std::to_string(block.bytes) + " bytes" + (block.live ? ")" : ", freed)");
}

std::string Blocks::describe(std::uint64_t address) {
  if (const Block* const block = before(address))
    return name(*block) + ", offset " + std::to_string(address - block->begin);
  char text[64];
  std::snprintf(text, sizeof text, "the address 0x%llx", static_cast<unsigned long long>(address));
  return text;
}

std::vector<std::string> Blocks::leaks() {
  std::vector<std::string> leaks;
  each_live([&](const Block& block) { leaks.push_back(name(block)); });
  return leaks;
}

}  // namespace fakecuda
