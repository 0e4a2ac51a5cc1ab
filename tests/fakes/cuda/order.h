// What is ordered before what: vector clocks of streams, events and the host, and the accesses they order.
//
// Everything here is decided when an operation is put into its stream, so the stream mode changes nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace fakecuda {

// An operation as messages name it: the number-th of its stream, counted from 1.
struct Label {
  std::string name;
  unsigned stream = 0;
  std::uint64_t number = 0;
  std::string text() const;
};

// By stream: the last operation that is known to be ordered before.
class Clock {
 public:
  std::uint64_t at(unsigned stream) const { return stream < last_.size() ? last_[stream] : 0; }
  void set(unsigned stream, std::uint64_t number);
  void join(const Clock& other);
  bool covers(const Label& label) const { return at(label.stream) >= label.number; }

 private:
  std::vector<std::uint64_t> last_;
};

// `rows` rows of `width` bytes that begin `pitch` bytes apart.
struct Region {
  std::uint64_t begin = 0;
  std::uint64_t width = 0;
  std::uint64_t pitch = 0;
  std::uint64_t rows = 1;

  std::uint64_t row(std::uint64_t index) const { return begin + index * pitch; }
  std::uint64_t end() const { return row(rows - 1) + width; }
  // The same bytes in as few rows as can be; never called on an empty region.
  Region merged() const;
  std::string text_from(std::uint64_t origin) const;
};

bool overlap(const Region& a, const Region& b);

// An access as the caller knows it: addresses of the product.
struct Access {
  Region region;
  bool writes = false;
};

// The accesses to one piece of memory that the host does not yet know to have ended.
class History {
 public:
  // Ends the process if `access` conflicts with one that is not ordered before `clock`. `memory` names the
  // piece and `origin` is its first address, for the message.
  void check(const Access& access, const Label& label, const Clock& clock, const std::string& memory,
             std::uint64_t origin) const;
  void add(const Access& access, std::shared_ptr<const Label> label);
  // Drops what the host knows to have ended: all that comes later is ordered behind it.
  void forget(const Clock& host);
  // An operation that is left, or null.
  const Label* any() const { return entries_.empty() ? nullptr : entries_.front().label.get(); }

 private:
  struct Entry {
    Access access;
    std::shared_ptr<const Label> label;
  };
  std::vector<Entry> entries_;
};

}  // namespace fakecuda
