#include "exec/shard_check.h"

#include <cstring>

#include "exec/replica_term.h"

namespace slabload {

std::uint64_t ShardCheck::bytes(const LoadPlan& plan) {
  std::uint64_t parts = 0;
  for (const ShardPlace& shard : plan.shards)
    for_each_dense_part(shard.box, shard.blocks, [&](const Box&, std::uint64_t) { ++parts; });
  return parts * sizeof(std::uint64_t);
}

ShardCheck::ShardCheck(LoadRun& run)
    : run_(run),
      parts_(bytes(run.plan) / sizeof(std::uint64_t)),
      sums_(run.parts.device.allocate(bytes(run.plan), "the shards' checksums")),
      here_(run.parts.device.allocate_staging(bytes(run.plan), "the shards' checksums")) {}

std::vector<std::uint64_t> ShardCheck::own_sums() {
  const std::size_t count = run_.index.tensors.size();
  std::vector<std::uint64_t> sums(count, 0);
  if (parts_ == 0) return sums;
  Device& device = run_.parts.device;
  std::uint64_t part = 0;
  for (std::uint32_t t = 0; t < count; ++t) {
    const ShardPlace& shard = run_.plan.shards[t];
    const TensorMeta& tensor = run_.tensor(t);
    const std::uint32_t size = dtype_size(run_.plan.dtypes[t]);
    run_.parts.monitor.at("verify (shards)", &tensor.name);
    PhaseTimer timer(run_, Phase::verify, run_.stats.verify_s, t, shard.bytes);
    for_each_dense_part(shard.box, shard.blocks, [&](const Box& box, std::uint64_t element) {
      device.checksum_box(tensor.shape, box, size, run_.shards->data() + shard.offset + element * size,
                          sums_->data() + part++ * sizeof(std::uint64_t));
    });
    run_.stats.verify_bytes += shard.bytes;
  }
  PhaseTimer timer(run_, Phase::verify, run_.stats.verify_s, kNoTensor, 0);
  device.copy_out(sums_->data(), here_->data(), parts_ * sizeof(std::uint64_t));
  Mark done = device.mark();
  run_.wait([&] { return device.passed(done).has_value(); });
  const std::byte* next = here_->data();
  for (std::uint32_t t = 0; t < count; ++t) {
    const ShardPlace& shard = run_.plan.shards[t];
    for_each_dense_part(shard.box, shard.blocks, [&](const Box&, std::uint64_t) {
      std::uint64_t sum = 0;
      std::memcpy(&sum, next, sizeof sum);
      sums[t] ^= sum;
      next += sizeof sum;
    });
  }
  return sums;
}

void ShardCheck::compare(std::vector<std::uint64_t>& bad) {
  const std::size_t count = run_.index.tensors.size();
  std::vector<std::uint64_t> own;
  together(run_.parts.control, [&] { own = own_sums(); });
  // The shards of one set of replicas cover the tensor once, so their CRCs XOR to the one that the readers
  // had. The other replicas must equal the first.
  std::vector<std::uint64_t> of_first(count, 0);
  std::vector<std::uint64_t> difference(count, 0);
  for (std::size_t t = 0; t < count; ++t) {
    const Replica replica = replica_of(run_.plan, t);
    if (replica.first) of_first[t] = own[t];
    difference[t] = replica_term(replica, own[t]);
  }
  run_.parts.control.bit_xor(of_first);
  run_.parts.control.sum(difference);
  for (std::size_t t = 0; t < count; ++t) {
    const bool read = run_.index.tensors[t].storage != StorageKind::fill;
    if (difference[t] != 0 || (read && of_first[t] != run_.final_crc[t])) bad[t] = 1;
  }
}

}  // namespace slabload
