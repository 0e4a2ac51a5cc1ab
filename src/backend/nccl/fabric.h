// Fabric over NCCL: transfers between the memories of GPUs.
#pragma once

#include <nccl.h>

#include <array>
#include <deque>
#include <memory>
#include <optional>

#include "backend/control.h"
#include "backend/cuda/device.h"
#include "backend/fabric.h"
#include "backend/nccl/communicator.h"
#include "backend/nccl/schedule.h"

namespace slabload::nccl {

// What bounds the device memory that NCCL takes for itself, about 10 MiB per channel and connected rank if
// left alone. The last two have no effect where the environment says NCCL_MAX_P2P_NCHANNELS or NCCL_BUFFSIZE,
// or if NCCL was used before in this process.
struct NcclOptions {
  int max_ctas = 8;                         // channels of a communicator
  int p2p_channels = 4;                     // channels to each rank that is sent to or received from
  std::uint64_t buffer_bytes = 2ULL << 20;  // buffer of a channel; NCCL's own default is 4 MiB
};

// Its transfers run one set after the other on a stream of its own. One per process. All calls come from one
// thread, that of the device. Errors are of this rank alone unless agreed: the caller tells the others
// (Control::alarm) and calls abort().
class NcclFabric final : public Fabric {
 public:
  static constexpr std::size_t kMostSets = 8;  // that may be under way at once

  // `control` and `device` outlive it. Not collective.
  NcclFabric(Control& control, cuda::CudaDevice& device, const NcclOptions& options);
  // All ranks' transfers have ended, or this rank's communicators are aborted.
  ~NcclFabric() override;
  NcclFabric(const NcclFabric&) = delete;
  NcclFabric& operator=(const NcclFabric&) = delete;

  // Makes all communicators and has NCCL connect and load all it will use; nothing is created after it. If a
  // rank fails, all throw its error, agreed.
  void connect(const std::vector<std::vector<int>>& ranks_of_group, const std::vector<int>& peers) override;
  void all_gather(std::size_t group, void* data, std::uint64_t bytes, std::uint64_t part) override;
  void broadcast(std::size_t group, int root, void* data, std::uint64_t bytes) override;
  void send(int peer, const void* data, std::uint64_t bytes) override;
  void receive(int peer, void* data, std::uint64_t bytes) override;
  // Waits until NCCL has put all into the stream, which may take until other ranks have started earlier sets;
  // throws the alarm of another rank if one comes meanwhile.
  Ticket start() override;
  // The GPU moves them along.
  void progress() override {}
  std::optional<Span> finished(Ticket ticket) override;
  bool abort() noexcept override;
  std::uint64_t own_bytes() const override { return own_bytes_; }
  std::string description() const override { return description_; }

 private:
  struct Timing {
    cuda::Event begin;
    cuda::Event end;
  };

  template <typename Step>
  void together_or_abort(Step&& step);
  Schedule& schedule();
  void make_events();
  void make_communicators(const std::vector<std::vector<int>>& ranks_of_group,
                          const std::vector<std::uint64_t>& largest);
  void warm_up(const std::vector<std::vector<int>>& ranks_of_group, const std::vector<int>& peers,
               const DeviceMemory& memory);
  void run(const Batch& batch);
  void issue(const Call& call, ncclComm_t comm);
  // Waits until it has done what was asked of it.
  void settle(const Communicator& communicator);

  Control& control_;
  cuda::CudaDevice& device_;
  NcclOptions options_;
  std::string description_;
  std::uint64_t own_bytes_ = 0;
  bool connected_ = false;

  cuda::Stream stream_;
  std::array<Timing, kMostSets> timings_;  // ticket t has entry t % kMostSets
  Ticket oldest_ = 0;                      // under way
  Ticket next_ = 0;

  // Destroyed from the last to the first, so the parent outlives what was split from it.
  Communicator world_;                                // of all ranks; none if no rank transfers anything
  std::deque<Communicator> split_;                    // of this rank's groups that aren't all ranks
  std::vector<const Communicator*> communicator_of_;  // per group; null where this rank is alone
  std::optional<Schedule> schedule_;
};

}  // namespace slabload::nccl
