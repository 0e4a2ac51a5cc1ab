// A CheckpointSink in memory that holds its callers to the letter of the interface, and can be told to fail.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "backend/control.h"
#include "backend/sink.h"
#include "base/error.h"

namespace slabload::testing {

class MemorySink final : public CheckpointSink {
 public:
  explicit MemorySink(Control& control) : control_(control) {}

  // What to fail at, on the ranks where it is set.
  bool fail_create = false;
  int fail_write = -1;  // the number of the write, from 0
  bool fail_commit = false;

  void create(const TensorIndex& index) override {
    if (state_ != State::fresh) broken("create called twice");
    together(control_, [&] {
      if (fail_create) fail(Status::file, "memory: create refused");
    });
    index_ = index;
    for (const TensorMeta& t : index_.tensors) {
      bytes_.emplace_back(t.bytes(), '\0');
    }
    state_ = State::created;
  }

  void write(std::size_t tensor, FlatRange range, const void* data) override {
    if (state_ != State::created) broken("write outside create and commit");
    if (tensor >= index_.tensors.size()) broken("write to a tensor that is not there");
    if (range.empty() || range.end > index_.tensors[tensor].elements()) broken("write of a bad range");
    if (write_calls++ == fail_write) fail(Status::file, "memory: the disk is full");
    std::uint64_t element = dtype_size(index_.tensors[tensor].dtype);
    largest_write = std::max(largest_write, range.size() * element);
    std::memcpy(bytes_[tensor].data() + range.begin * element, data, range.size() * element);
    writes_.push_back({tensor, range.begin, range.end});
  }

  void write_extent(std::size_t first, std::size_t last, std::uint64_t offset, std::uint64_t bytes,
                    const void* data) override {
    const auto* from = static_cast<const char*>(data);
    std::vector<std::size_t> met;
    for (std::size_t t = 0; t < index_.tensors.size(); ++t) {
      const TensorMeta& tensor = index_.tensors[t];
      if (tensor.bytes() != 0 && tensor.offset < offset + bytes && offset < tensor.offset + tensor.bytes()) met.push_back(t);
    }
    std::sort(met.begin(), met.end(),
              [&](std::size_t a, std::size_t b) { return index_.tensors[a].offset < index_.tensors[b].offset; });
    if (met.empty() || met.front() != first || met.back() != last) broken("an extent of other tensors");
    std::uint64_t at = offset;
    for (std::size_t t : met) {
      const TensorMeta& tensor = index_.tensors[t];
      if (at < tensor.offset) broken("an extent with a gap");
      const std::uint64_t end = std::min(offset + bytes, tensor.offset + tensor.bytes());
      const std::uint64_t size = dtype_size(tensor.dtype);
      if ((at - tensor.offset) % size != 0 || (end - tensor.offset) % size != 0) broken("an extent that cuts an element");
      write(t, {(at - tensor.offset) / size, (end - tensor.offset) / size}, from + (at - offset));
      at = end;
    }
    if (at != offset + bytes) broken("an extent beyond its tensors");
    ++extents;
  }
  void write_together(std::size_t, const Box*, const void*) override { broken("nothing is written together here"); }
  const TensorIndex& made() const override { return index_; }

  // Afterwards every rank holds the whole checkpoint.
  void commit(const std::vector<std::uint64_t>& crc64) override {
    if (state_ != State::created) broken("commit outside create and commit");
    if (crc64.size() != index_.tensors.size()) broken("commit with a wrong number of checksums");
    together(control_, [&] {
      if (fail_commit) fail(Status::file, "memory: commit refused");
    });
    together(control_, [&] { check_writes(control_.gather(packed_writes())); });
    for (std::string& bytes : bytes_) {
      // Unwritten bytes are zero here, so the xor over all ranks is the one rank's bytes.
      std::vector<std::uint64_t> words(bytes.size() / 8 + 1, 0);
      std::memcpy(words.data(), bytes.data(), bytes.size());
      control_.bit_xor(words);
      std::memcpy(bytes.data(), words.data(), bytes.size());
    }
    crc64_ = crc64;
    state_ = State::committed;
  }

  void abandon() noexcept override {
    if (state_ != State::committed) state_ = State::abandoned;
  }

  bool committed() const { return state_ == State::committed; }
  bool abandoned() const { return state_ == State::abandoned; }
  const TensorIndex& index() const { return index_; }
  const std::string& bytes(std::size_t tensor) const { return bytes_.at(tensor); }
  const std::vector<std::uint64_t>& crc64() const { return crc64_; }

  int write_calls = 0;
  int extents = 0;  // calls of write_extent
  std::uint64_t largest_write = 0;

 private:
  enum class State { fresh, created, committed, abandoned };
  [[noreturn]] static void broken(const std::string& what) {
    throw Error(Status::internal, "MemorySink: " + what);
  }

  // One write: tensor, begin, end.
  using Write = std::array<std::uint64_t, 3>;

  std::string packed_writes() const {
    return {reinterpret_cast<const char*>(writes_.data()), writes_.size() * sizeof(Write)};
  }

  // On rank 0: the writes of all ranks cover every tensor once, end to end.
  void check_writes(const std::vector<std::string>& of_ranks) const {
    if (control_.rank() != 0) return;
    std::vector<Write> all;
    for (const std::string& packed : of_ranks) {
      std::size_t before = all.size();
      all.resize(before + packed.size() / sizeof(Write));
      if (!packed.empty()) std::memcpy(all[before].data(), packed.data(), packed.size());
    }
    std::sort(all.begin(), all.end());
    std::size_t next = 0;
    for (std::size_t t = 0; t < index_.tensors.size(); ++t) {
      std::uint64_t covered = 0;
      for (; next < all.size() && all[next][0] == t; covered = all[next++][2]) {
        if (all[next][1] != covered)
          broken("elements of " + index_.tensors[t].name + " were written twice or not at all");
      }
      if (covered != index_.tensors[t].elements())
        broken("the end of " + index_.tensors[t].name + " was not written");
    }
  }

  Control& control_;
  State state_ = State::fresh;
  TensorIndex index_;
  std::vector<std::string> bytes_;
  std::vector<Write> writes_;
  std::vector<std::uint64_t> crc64_;
};

}  // namespace slabload::testing
