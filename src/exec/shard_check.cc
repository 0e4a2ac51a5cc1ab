#include "exec/shard_check.h"

#include <cstring>

#include "base/narrow.h"

namespace slabload {
namespace {

// splitmix64's finaliser (Steele, Lea, Flood 2014): odd factors that tell places apart.
std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// A random odd number for a shard's place.
std::uint64_t factor_of(const Box& box) {
  std::uint64_t h = 1;
  for (std::uint64_t start : box.start) h = mixed(h + start + 0x9e3779b97f4a7c15ULL);
  return h | 1;
}

}  // namespace

ShardCheck::ShardCheck(LoadRun& run)
    : run_(run),
      sums_(run.parts.device.allocate(run.index.tensors.size() * sizeof(std::uint64_t),
                                      "the shards' checksums")),
      here_(run.parts.device.allocate_staging(run.index.tensors.size() * sizeof(std::uint64_t),
                                              "the shards' checksums")) {}

std::vector<std::uint64_t> ShardCheck::own_sums() {
  const std::size_t count = run_.index.tensors.size();
  std::vector<std::uint64_t> sums(count, 0);
  if (count == 0) return sums;
  Device& device = run_.parts.device;
  for (std::uint32_t t = 0; t < count; ++t) {
    const ShardPlace& shard = run_.plan.shards[t];
    const TensorMeta& tensor = run_.tensor(t);
    run_.parts.monitor.at("verify (shards)", &tensor.name);
    PhaseTimer timer(run_, Phase::verify, run_.stats.verify_s, t, shard.bytes);
    device.checksum_box(tensor.shape, shard.box, dtype_size(run_.plan.dtypes[t]),
                        run_.shards->data() + shard.offset, sums_->data() + t * sizeof(std::uint64_t));
    run_.stats.verify_bytes += shard.bytes;
  }
  PhaseTimer timer(run_, Phase::verify, run_.stats.verify_s, kNoTensor, 0);
  device.copy_out(sums_->data(), here_->data(), count * sizeof(std::uint64_t));
  Mark done = device.mark();
  run_.wait([&] { return device.passed(done).has_value(); });
  std::memcpy(sums.data(), here_->data(), count * sizeof(std::uint64_t));
  return sums;
}

void ShardCheck::compare(std::vector<std::uint64_t>& bad) {
  const std::size_t count = run_.index.tensors.size();
  std::vector<std::uint64_t> own;
  together(run_.parts.control, [&] { own = own_sums(); });
  // The shards of one set of replicas cover the tensor once, so their CRCs XOR to the one that the readers
  // had. The other replicas must equal the first: with n replicas, own - n * (the first's), times a random
  // odd factor per place, sums to 0 over all ranks, and to 0 by chance once in 2^64.
  std::vector<std::uint64_t> of_first(count, 0);
  std::vector<std::uint64_t> difference(count, 0);
  for (std::size_t t = 0; t < count; ++t) {
    const std::int32_t group = run_.plan.replicas[t];
    std::uint64_t replicas = 1;
    bool first = true;
    if (group >= 0) {
      const std::vector<int>& ranks = run_.plan.groups[static_cast<std::size_t>(group)];
      replicas = ranks.size();
      first = ranks.front() == narrow<int>(run_.plan.rank);
    }
    if (first) of_first[t] = own[t];
    difference[t] = factor_of(run_.plan.shards[t].box) * mixed(own[t]) * (first ? 1 - replicas : 1);
  }
  run_.parts.control.bit_xor(of_first);
  run_.parts.control.sum(difference);
  for (std::size_t t = 0; t < count; ++t) {
    const bool read = run_.index.tensors[t].storage != StorageKind::fill;
    if (difference[t] != 0 || (read && of_first[t] != run_.final_crc[t])) bad[t] = 1;
  }
}

}  // namespace slabload
