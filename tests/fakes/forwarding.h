// Fabric and Storage that pass everything on: what a test's own changes one thing about.
#pragma once

#include "backend/fabric.h"
#include "backend/storage.h"

namespace slabload::testing {

class ForwardingFabric : public Fabric {
 public:
  explicit ForwardingFabric(Fabric& inner) : inner_(inner) {}
  void connect(const std::vector<std::vector<int>>& groups, const std::vector<int>& peers) override {
    inner_.connect(groups, peers);
  }
  void all_gather(std::size_t group, void* data, std::uint64_t bytes, std::uint64_t part) override {
    inner_.all_gather(group, data, bytes, part);
  }
  void broadcast(std::size_t group, int root, void* data, std::uint64_t bytes) override {
    inner_.broadcast(group, root, data, bytes);
  }
  void send(int peer, const void* data, std::uint64_t bytes) override { inner_.send(peer, data, bytes); }
  void receive(int peer, void* data, std::uint64_t bytes) override { inner_.receive(peer, data, bytes); }
  Ticket start() override { return inner_.start(); }
  void progress() override { inner_.progress(); }
  std::optional<Span> finished(Ticket ticket) override { return inner_.finished(ticket); }
  bool abort() noexcept override { return inner_.abort(); }
  std::uint64_t own_bytes() const override { return inner_.own_bytes(); }
  std::string description() const override { return inner_.description(); }

 protected:
  Fabric& inner_;
};

class ForwardingStorage : public Storage {
 public:
  explicit ForwardingStorage(Storage& inner) : inner_(inner) {}
  void read(const TensorMeta& tensor, const Box& box, void* out) override {
    before_read();
    inner_.read(tensor, box, out);
  }
  void read_extent(const TensorMeta& first, const TensorMeta& last, std::uint64_t offset, std::uint64_t bytes,
                   void* out) override {
    before_read();
    inner_.read_extent(first, last, offset, bytes, out);
  }
  void read_collective(const TensorMeta& tensor, const Box* box, void* out) override {
    inner_.read_collective(tensor, box, out);
  }
  bool collective(const TensorMeta& tensor) const override { return inner_.collective(tensor); }
  void check_unchanged() override { inner_.check_unchanged(); }
  void abandon() noexcept override { inner_.abandon(); }
  StorageCounters counters() const override { return inner_.counters(); }
  std::string description() const override { return inner_.description(); }

 protected:
  // Each read that is not collective.
  virtual void before_read() {}

  Storage& inner_;
};

}  // namespace slabload::testing
