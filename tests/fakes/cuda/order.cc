#include "order.h"

#include <algorithm>

#include "violation.h"

namespace fakecuda {

std::string Label::text() const {
  return name + " (operation " + std::to_string(number) + " of stream " + std::to_string(stream) + ")";
}

void Clock::set(unsigned stream, std::uint64_t number) {
  if (stream >= last_.size()) last_.resize(stream + 1);
  last_[stream] = number;
}

void Clock::join(const Clock& other) {
  if (other.last_.size() > last_.size()) last_.resize(other.last_.size());
  for (std::size_t i = 0; i < other.last_.size(); ++i) last_[i] = std::max(last_[i], other.last_[i]);
}

Region Region::merged() const {
  if (rows == 1 || pitch != width) return *this;
  return {begin, width * rows, width * rows, 1};
}

std::string Region::text_from(std::uint64_t origin) const {
  std::string text = "bytes [" + std::to_string(begin - origin) + ", " + std::to_string(end() - origin) + ")";
  if (rows > 1)
    text +=
        ", " + std::to_string(rows) + " rows of " + std::to_string(width) + " each " + std::to_string(pitch);
  return text;
}

namespace {

// Whether [begin, end) meets a row of `region`.
bool meets(std::uint64_t begin, std::uint64_t end, const Region& region) {
  if (end <= region.begin || begin >= region.end()) return false;
  if (region.rows == 1) return true;
  // The last row that begins before `end`; earlier ones end no later than it.
  const std::uint64_t row = std::min(region.rows - 1, (end - 1 - region.begin) / region.pitch);
  return region.row(row) + region.width > begin;
}

}  // namespace

bool overlap(const Region& a, const Region& b) {
  if (a.end() <= b.begin || b.end() <= a.begin) return false;
  const Region& fewer = a.rows <= b.rows ? a : b;
  const Region& other = a.rows <= b.rows ? b : a;
  for (std::uint64_t i = 0; i < fewer.rows; ++i)
    if (meets(fewer.row(i), fewer.row(i) + fewer.width, other)) return true;
  return false;
}

void History::check(const Access& access, const Label& label, const Clock& clock, const std::string& memory,
                    std::uint64_t origin) const {
  for (const Entry& entry : entries_) {
    if (!access.writes && !entry.access.writes) continue;
    if (clock.covers(*entry.label) || !overlap(access.region, entry.access.region)) continue;
    violation(
        "not ordered: %s %s %s of %s, and %s %s %s of it; no stream, event or wait of the host is between "
        "them",
        label.text().c_str(), access.writes ? "writes" : "reads", access.region.text_from(origin).c_str(),
        memory.c_str(), entry.label->text().c_str(), entry.access.writes ? "writes" : "reads",
        entry.access.region.text_from(origin).c_str());
  }
}

void History::add(const Access& access, std::shared_ptr<const Label> label) {
  entries_.push_back({access, std::move(label)});
}

void History::forget(const Clock& host) {
  std::erase_if(entries_, [&](const Entry& entry) { return host.covers(*entry.label); });
}

}  // namespace fakecuda
