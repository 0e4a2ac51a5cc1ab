#include "backend/nccl/fabric.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "backend/cuda/call.h"
#include "backend/nccl/call.h"
#include "base/narrow.h"

namespace slabload::nccl {
namespace {

// Settings that NCCL takes from the environment alone, at its first communicator. The user's own win.
void set_environment(const NcclOptions& options) {
  auto set = [](const char* name, const std::string& value) {
    if (setenv(name, value.c_str(), 0) != 0) fail(Status::internal, "setenv {}: {}", name, errno_text(errno));
  };
  // Kernels of different communicators start in the order in which they were issued, on every rank alike.
  set("NCCL_LAUNCH_ORDER_IMPLICIT", "1");
  // Every rank that is sent to costs buffers per channel, and a few channels fill a link.
  set("NCCL_MAX_P2P_NCHANNELS", std::to_string(options.p2p_channels));
  set("NCCL_BUFFSIZE", std::to_string(options.buffer_bytes));
  // Multicast in the switch would take hundreds of MB at the first large gather, where rings are fast enough.
  set("NCCL_NVLS_ENABLE", "0");
}

ncclConfig_t configuration(const NcclOptions& options) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;    // no call waits for another rank, so that its alarm is heard
  config.splitShare = 1;  // the groups use the buffers of all
  config.maxCTAs = options.max_ctas;
  return config;
}

// The memory that warm_up takes, in units: one to send, then what each group and each peer needs.
constexpr std::uint64_t kUnit = 16;
std::uint64_t warm_up_bytes(const std::vector<std::vector<int>>& ranks_of_group,
                            const std::vector<int>& peers) {
  std::uint64_t units = 1 + peers.size();
  for (const std::vector<int>& members : ranks_of_group) units += 2 * members.size() + 1;
  return units * kUnit;
}

// A group of NCCL, closed on every way out.
class Group {
 public:
  Group() { SLABLOAD_NCCL(ncclGroupStart); }
  ~Group() {
    if (ended_) return;
    CallName scope("ncclGroupEnd");
    ncclGroupEnd();  // after an error inside, which it only repeats
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  void end() {
    ended_ = true;
    SLABLOAD_NCCL(ncclGroupEnd);
  }

 private:
  bool ended_ = false;
};

}  // namespace

NcclFabric::NcclFabric(Control& control, cuda::CudaDevice& device, const NcclOptions& options)
    : control_(control), device_(device), options_(options), description_("nccl " + library_version()) {}

NcclFabric::~NcclFabric() {
  if (!connected_ || oldest_ != next_) abort();
}

// Runs a step in which ranks wait for each other: the failure of one ends it on all.
template <typename Step>
void NcclFabric::together_or_abort(Step&& step) {
  together(control_, [&] {
    try {
      step();
    } catch (const Error& error) {
      if (!error.second_hand()) control_.alarm(error);
      abort();
      throw;
    } catch (const std::exception& error) {
      control_.alarm(Error(Status::internal, error.what()));
      abort();
      throw;
    }
  });
}

Schedule& NcclFabric::schedule() {
  if (!schedule_) fail(Status::internal, "a transfer before connect");
  return *schedule_;
}

void NcclFabric::connect(const std::vector<std::vector<int>>& ranks_of_group, const std::vector<int>& peers) {
  std::vector<Seat> seats;
  // Over all ranks, per entry: the members of the largest group; behind them: the most peers.
  std::vector<std::uint64_t> largest;
  for (const std::vector<int>& members : ranks_of_group) {
    auto self = std::find(members.begin(), members.end(), control_.rank());
    seats.push_back({narrow<int>(members.size()), narrow<int>(self - members.begin())});
    largest.push_back(members.size());
  }
  largest.push_back(peers.size());
  control_.max(largest);
  schedule_.emplace(control_.rank(), control_.ranks(), peers, narrow<int>(largest.back()), std::move(seats));
  communicator_of_.assign(ranks_of_group.size(), nullptr);

  std::uint64_t free_before = 0;
  together(control_, [&] {
    make_events();
    free_before = device_.free_bytes();
  });
  bool transfers = largest.back() > 0 ||
                   std::any_of(largest.begin(), largest.end() - 1, [](auto members) { return members > 1; });
  if (transfers) {
    make_communicators(ranks_of_group, largest);
    // Outlives a step that failed: freeing it waits for the GPU, so everything has to be aborted before.
    std::unique_ptr<DeviceMemory> memory;
    together_or_abort([&] {
      memory = device_.allocate(warm_up_bytes(ranks_of_group, peers), "connecting the ranks");
      warm_up(ranks_of_group, peers, *memory);
      memory.reset();
      std::uint64_t free_after = device_.free_bytes();
      own_bytes_ = free_before > free_after ? free_before - free_after : 0;
    });
  }
  connected_ = true;
}

void NcclFabric::make_events() {
  const std::string where = "for transfers";
  stream_ = cuda::make_stream(where);
  for (Timing& timing : timings_) {
    timing.begin = cuda::make_event(true, where);
    timing.end = cuda::make_event(true, where);
  }
}

void NcclFabric::make_communicators(const std::vector<std::vector<int>>& ranks_of_group,
                                    const std::vector<std::uint64_t>& largest) {
  ncclUniqueId id{};
  together(control_, [&] {
    set_environment(options_);
    if (control_.rank() == 0) SLABLOAD_NCCL(ncclGetUniqueId, &id);
  });
  std::string bytes = control_.broadcast({id.internal, sizeof id.internal});
  std::memcpy(id.internal, bytes.data(), sizeof id.internal);

  // Each step ends with an agreement, so no rank uses a communicator that another one lacks.
  together_or_abort([&] {
    world_.create(control_.ranks(), id, control_.rank(), configuration(options_));
    settle(world_);
  });
  together_or_abort([&] {
    for (std::size_t group = 0; group < ranks_of_group.size(); ++group) {
      const std::vector<int>& members = ranks_of_group[group];
      if (largest[group] <= 1) continue;
      if (narrow<int>(largest[group]) == control_.ranks()) {
        communicator_of_[group] = &world_;
        continue;
      }
      bool alone = members.size() == 1;
      Communicator& child = split_.emplace_back();
      child.split(world_, alone ? NCCL_SPLIT_NOCOLOR : members.front(), control_.rank());
      settle(world_);
      if (alone) continue;
      settle(child);
      communicator_of_[group] = &child;
    }
  });
}

// NCCL connects two ranks, and loads a kernel, when it first needs to. So each kind of transfer that can come
// is run once, in small: on every group a gather of even and one of uneven parts and a broadcast, and a
// message each way with each peer.
void NcclFabric::warm_up(const std::vector<std::vector<int>>& ranks_of_group, const std::vector<int>& peers,
                         const DeviceMemory& memory) {
  SLABLOAD_CUDA_CALL("connecting the ranks", cudaMemsetAsync, memory.data(), 0, memory.size(), stream_.get());
  std::byte* at = memory.data();
  auto take = [&](std::uint64_t count) {
    at += count * kUnit;
    return at - count * kUnit;
  };
  std::byte* outgoing = take(1);
  for (std::size_t group = 0; group < ranks_of_group.size(); ++group) {
    std::uint64_t members = ranks_of_group[group].size();
    all_gather(group, take(members), members * kUnit, kUnit);
    all_gather(group, take(members), members * kUnit - 1, kUnit);
    broadcast(group, 0, take(1), kUnit);
  }
  for (int peer : peers) {
    send(peer, outgoing, kUnit);
    receive(peer, take(1), kUnit);
  }
  Ticket ticket = start();
  wait_until(control_, [&] { return finished(ticket).has_value(); });
}

void NcclFabric::all_gather(std::size_t group, void* data, std::uint64_t bytes, std::uint64_t part) {
  schedule().all_gather(group, data, bytes, part);
}

void NcclFabric::broadcast(std::size_t group, int root, void* data, std::uint64_t bytes) {
  schedule().broadcast(group, root, data, bytes);
}

void NcclFabric::send(int peer, const void* data, std::uint64_t bytes) {
  schedule().send(peer, data, bytes);
}

void NcclFabric::receive(int peer, void* data, std::uint64_t bytes) {
  schedule().receive(peer, data, bytes);
}

Fabric::Ticket NcclFabric::start() {
  if (next_ - oldest_ == kMostSets)
    fail(Status::internal, "more than {} sets of transfers under way", kMostSets);
  std::vector<Batch> batches = schedule().take();
  const Timing& timing = timings_[next_ % kMostSets];
  device_.order_before(stream_.get());
  SLABLOAD_CUDA_CALL("before transfers", cudaEventRecord, timing.begin.get(), stream_.get());
  Ticket ticket = next_++;
  for (const Batch& batch : batches) run(batch);
  SLABLOAD_CUDA_CALL("after transfers", cudaEventRecord, timing.end.get(), stream_.get());
  return ticket;
}

// Also waits until all of it is in the stream: what is put there next, for any communicator, has to come
// behind it.
void NcclFabric::run(const Batch& batch) {
  const Communicator& communicator = batch.group ? *communicator_of_.at(*batch.group) : world_;
  Group group;
  for (const Call& call : batch.calls) issue(call, communicator.get());
  group.end();
  settle(communicator);
}

void NcclFabric::issue(const Call& call, ncclComm_t comm) {
  cudaStream_t stream = stream_.get();
  switch (call.kind) {
    case Call::Kind::all_gather:
      SLABLOAD_NCCL(ncclAllGather, call.from, call.to, call.bytes, ncclInt8, comm, stream);
      break;
    case Call::Kind::broadcast:
      SLABLOAD_NCCL(ncclBroadcast, call.from, call.to, call.bytes, ncclInt8, call.peer, comm, stream);
      break;
    case Call::Kind::send:
      SLABLOAD_NCCL(ncclSend, call.from, call.bytes, ncclInt8, call.peer, comm, stream);
      break;
    case Call::Kind::receive:
      SLABLOAD_NCCL(ncclRecv, call.to, call.bytes, ncclInt8, call.peer, comm, stream);
      break;
  }
}

void NcclFabric::settle(const Communicator& communicator) {
  wait_until(control_, [&] { return communicator.settled(); });
}

std::optional<Span> NcclFabric::finished(Ticket ticket) {
  if (ticket != oldest_ || oldest_ == next_)
    fail(Status::internal, "set {} is not the oldest under way", ticket);
  if (world_.get() != nullptr) world_.settled();
  for (const Communicator& child : split_) {
    if (child.get() != nullptr) child.settled();
  }
  const Timing& timing = timings_[ticket % kMostSets];
  std::optional<double> end = device_.passed(timing.end);
  if (!end) return std::nullopt;
  std::optional<double> begin = device_.passed(timing.begin);
  if (!begin) fail(Status::internal, "a set of transfers ended before it began");
  ++oldest_;
  return Span{*begin, *end};
}

bool NcclFabric::abort() noexcept {
  // What was split goes first. A split that is under way ends with its parent, and what it made goes then.
  bool all = true;
  for (Communicator& child : split_) all &= child.abort();
  all &= world_.abort();
  for (Communicator& child : split_) all &= child.abort();
  // What it could not end may go on to use the memory.
  if (!all) device_.abandon();
  return all;
}

}  // namespace slabload::nccl
