// Which device holds the shards and which fabric fills them.
#pragma once

#include <memory>
#include <string>

#include "app/options.h"
#include "app/session.h"
#include "backend/device.h"
#include "backend/fabric.h"

namespace slabload {

class Hardware {
 public:
  // Chooses by --device and --fabric and by what every rank finds on its node: GPU number i of those that its
  // process is shown for the i-th rank of a node, and no GPU twice. Throws (agreed) Status::usage if what was
  // asked for is not there, naming the first rank that lacks it, and Status::peer if CUDA fails or the ranks
  // have different versions of the libraries. Collective.
  Hardware(Session& session, const RunOptions& options);

  // The libraries for GPUs, "CUDA 13.0, NCCL 2.28.9", or that there are none. Not collective.
  static std::string libraries();

  bool gpu() const { return gpu_; }
  // Why --device auto chose so; empty if nothing was left to choose.
  const std::string& why() const { return why_; }

  // The device, the same every time; its first call takes the GPU. Collective.
  std::shared_ptr<Device> device();
  // A new fabric for one load on the device. Collective.
  std::unique_ptr<Fabric> fabric();

 private:
  void find_gpus(const RunOptions& options);

  Session& session_;
  bool gpu_ = false;
  int ordinal_ = 0;
  std::string why_;
  std::shared_ptr<Device> device_;
};

}  // namespace slabload
