// The parts of a load on GPUs with one wait, agreement or return left out, as SLABLOAD_MUTANT says. What lies
// inside NCCL's fabric and the CUDA device is left out by the doubles, see fault_mutant().
#pragma once

#include <dlfcn.h>

#include <cstdlib>

#include "fakes/forwarding.h"
#include "gpu/gpu_run.h"
#include "mpi/loader_files.h"

namespace slabload::testing {

inline std::string mutant() {
  const char* name = std::getenv("SLABLOAD_MUTANT");
  return name == nullptr ? "" : name;
}

// Sets the doubles' faults from here on, RANK:FUNCTION:NTH:ACTION;...; false on real libraries, which have
// none.
inline bool set_faults(const std::string& faults) {
  static const auto set = reinterpret_cast<void (*)(const char*)>(dlsym(RTLD_DEFAULT, "fakecuda_set_faults"));
  if (set != nullptr) set(faults.c_str());
  return set != nullptr;
}

// A mutant of the form "fault:WHERE:FAULTS" begins where the test is at: what waits for the doubles goes on
// where they answer too early.
inline void fault_mutant(const std::string& where) {
  const std::string name = mutant(), start = "fault:" + where + ":";
  if (name.starts_with(start)) set_faults(name.substr(start.size()));
}

// Knows what the loader is doing: the waits are told apart by that.
class PhaseMonitor final : public Monitor {
 public:
  void at(const char* phase, const std::string*) override { phase_ = phase; }
  void waiting(const char* phase, const std::string*) override { phase_ = phase; }
  void moved(std::uint64_t, std::uint64_t) override {}
  bool in(const char* part) const { return phase_.find(part) != std::string::npos; }
  // True if the mutant is this call, "KIND:N:PHASE": the N-th of its kind in that phase.
  bool left_out(const std::string& kind) {
    return mutant() == fmt::format("{}:{}:{}", kind, ++calls_[kind + phase_], phase_);
  }

  bool failed = false;  // the ranks have agreed on an error

 private:
  std::map<std::string, int> calls_;
  std::string phase_;
};

// Fails on its n-th read, or at the end, when the files are looked at once more.
class FailingStorage final : public ForwardingStorage {
 public:
  static constexpr int kNever = -1, kAtTheEnd = -2;
  FailingStorage(Storage& inner, int fails_at)
      : ForwardingStorage(inner), left_(fails_at), at_the_end_(fails_at == kAtTheEnd) {}
  void before_read() override {
    if (left_ >= 0 && left_-- == 0) fail(Status::file, "the disk is gone");
  }
  void check_unchanged() override {
    if (at_the_end_) fail(Status::file, "the disk is gone");
    inner_.check_unchanged();
  }

 private:
  int left_;
  bool at_the_end_;
};

class MutantDevice final : public Device {
 public:
  MutantDevice(Device& inner, const PhaseMonitor& monitor) : inner_(inner), monitor_(monitor) {}

  std::unique_ptr<DeviceMemory> allocate(std::uint64_t bytes, const char* purpose) override {
    return inner_.allocate(bytes, purpose);
  }
  std::unique_ptr<DeviceMemory> allocate_staging(std::uint64_t bytes, const char* purpose) override {
    return inner_.allocate_staging(bytes, purpose);
  }
  void require(std::uint64_t bytes, const std::string& what) override { inner_.require(bytes, what); }
  void abandon() noexcept override { inner_.abandon(); }
  bool host_accessible() const override { return inner_.host_accessible(); }
  void prepare(std::byte* data, std::uint64_t bytes) override { inner_.prepare(data, bytes); }
  void warm_up() override { inner_.warm_up(); }
  void copy_in(const std::byte* host, std::byte* to, std::uint64_t bytes) override {
    inner_.copy_in(host, to, bytes);
  }
  void copy_out(const std::byte* from, std::byte* host, std::uint64_t bytes) override {
    inner_.copy_out(from, host, bytes);
  }
  void cast(DType from, DType to, const std::byte* in, std::uint64_t count, std::byte* out) override {
    inner_.cast(from, to, in, count, out);
  }
  void copy_box(std::uint32_t size, const Box& box, const std::byte* from, const Box& from_box, std::byte* to,
                const Box& to_box) override {
    inner_.copy_box(size, box, from, from_box, to, to_box);
  }
  void checksum_box(const Shape& shape, const Box& box, std::uint32_t size, const std::byte* data,
                    std::byte* sum) override {
    inner_.checksum_box(shape, box, size, data, sum);
  }
  Mark mark() override { return inner_.mark(); }
  std::optional<double> passed(Mark mark) override {
    if (mutant() == "slot_wait" && monitor_.in("staging slot")) return 0;
    if (mutant() == "slot_return" && monitor_.in("staging slot")) return std::nullopt;
    if (mutant() == "last_copies" && monitor_.in("last copies")) return 0;
    if (mutant() == "settle" && monitor_.failed) return 0;
    if (mutant() == "sums_back" && monitor_.in("verify (shards)")) return 0;
    return inner_.passed(mark);
  }
  std::uint64_t peak_bytes() const override { return inner_.peak_bytes(); }
  std::string description() const override { return inner_.description(); }

 private:
  Device& inner_;
  const PhaseMonitor& monitor_;
};

class MutantFabric final : public ForwardingFabric {
 public:
  using ForwardingFabric::ForwardingFabric;
  std::optional<Span> finished(Ticket ticket) override {
    if (mutant() == "fill_wait") return Span{};
    return inner_.finished(ticket);
  }
};

class MutantControl final : public Control {
 public:
  MutantControl(Control& inner, PhaseMonitor& monitor) : inner_(inner), monitor_(monitor) {}
  int rank() const override { return inner_.rank(); }
  int ranks() const override { return inner_.ranks(); }
  const std::string& host() const override { return inner_.host(); }
  void barrier() override { inner_.barrier(); }
  std::string broadcast(std::string bytes, int root) override {
    return inner_.broadcast(std::move(bytes), root);
  }
  std::vector<std::string> gather(const std::string& bytes) override { return inner_.gather(bytes); }
  void sum(std::span<std::uint64_t> values) override {
    if (!monitor_.left_out("sum")) inner_.sum(values);
  }
  void max(std::span<std::uint64_t> values) override {
    if (!monitor_.left_out("max")) inner_.max(values);
  }
  void min(std::span<std::uint64_t> values) override { inner_.min(values); }
  void bit_xor(std::span<std::uint64_t> values) override {
    if (!monitor_.left_out("bit_xor")) inner_.bit_xor(values);
  }
  void agree(const std::optional<Error>& mine) override {
    if (mutant() == "fill_agreement" && monitor_.in("to have read")) return;
    if (mutant() == "last_agreement" && monitor_.in("to have ended")) return;
    if (monitor_.left_out("agree")) return;
    try {
      inner_.agree(mine);
    } catch (const Error&) {
      monitor_.failed = true;
      throw;
    }
  }
  void alarm(const Error& mine) override { inner_.alarm(mine); }
  std::optional<Error> alarmed() override { return inner_.alarmed(); }

 private:
  Control& inner_;
  PhaseMonitor& monitor_;
};

struct Parts {
  mpi::MpiControl control{MPI_COMM_WORLD};
  PhaseMonitor monitor;
  MutantControl mutant_control{control, monitor};
  MutantDevice device{gpu(), monitor};
  nccl::NcclFabric fabric{mutant_control, gpu(), nccl::NcclOptions{}};
  MutantFabric mutant_fabric{fabric};
  GpuParts all() { return {&mutant_control, &device, &mutant_fabric, &monitor}; }
};

inline TensorIndex some_tensors() {
  TensorIndex table;
  for (int i = 0; i < 6; ++i) {
    table.tensors.push_back(plain_tensor(fmt::format("rows{}", i), DType::f32, Shape{300, 40}));
    table.tensors.push_back(plain_tensor(fmt::format("small{}", i), DType::bf16, Shape{70}));
  }
  return table;
}

// Two slots of two pages, rounds of 6,000 bytes: slots and staging are used again many times.
inline PlanParams tight(std::uint64_t min_read) {
  PlanParams params;
  params.pinned = true;
  params.slots = 2;
  params.slot_bytes = 8192;
  params.staging = 200000;
  params.round_bytes = 6000;
  params.min_read = min_read;
  return params;
}

}  // namespace slabload::testing
