#include "plan/way_choice.h"

#include <algorithm>
#include <cmath>

#include "base/narrow.h"

namespace slabload {
namespace {

// A row of compressed chunks that is decoded and sent on as a whole.
constexpr std::uint64_t kLargestBand = 256 << 20;
// What a rank reads of an exchange's window, about.
constexpr double kExtent = 16 << 20;

double real(std::uint64_t value) { return static_cast<double>(value); }

double hops(std::uint64_t ranks) { return std::ceil(std::log2(real(std::max<std::uint64_t>(ranks, 2)))); }

}  // namespace

bool WayChoice::may(std::uint32_t number, const PlanTensor& tensor, Way way) const {
  const TensorMeta& meta = index_.tensors[number];
  if (tensor.cell == 0) return way == Way::none;
  if (ranks_ == 1) return way == Way::direct;
  if (params_.saving && way != Way::direct && way != Way::exchange) return false;
  // A compressed chunk is decoded by one rank alone.
  const bool decodable = tensor.band == 0 || !tensor.sharded;
  // Where the user says how slow the fabric is, a small request can be worth it.
  const bool weighed = params_.costs.fabric_rank && !params_.saving;
  switch (way) {
    case Way::none:
      return false;
    case Way::direct:
      return tensor.in_place && (tensor.fill || (tensor.band == 0 && (weighed || large(tensor, tensor.replicas))));
    case Way::reread:
      // Only then: each byte read once is the promise otherwise.
      return tensor.in_place && !tensor.fill && decodable && tensor.replicas > 1 && weighed;
    case Way::relay:
      return tensor.in_place && !tensor.fill && decodable && tensor.replicas > 1 && large(tensor, 1) &&
             scale(tensor.band, tensor.widest(), 1) <= kLargestBand;
    case Way::exchange:
      return true;
    case Way::spread:
      return !tensor.fill && meta.bytes() != 0 &&
             tensor.elements <= std::min({round_bytes_, params_.round_bytes, kItemLimit / 2}) / tensor.widest();
  }
  return false;
}

bool WayChoice::large(const PlanTensor& tensor, std::uint64_t parts) const {
  return std::min(tensor.cell / tensor.runs, ceil_div(tensor.cell, parts)) * tensor.source_size >= params_.min_read;
}

Way WayChoice::choose(const std::string& strategy, std::uint32_t number, const PlanTensor& tensor) const {
  if (tensor.cell == 0) return Way::none;
  if (may(number, tensor, Way::direct) && (ranks_ == 1 || tensor.fill)) return Way::direct;
  if (strategy == "linear") return Way::exchange;
  return strategy == "auto" ? cheapest(number, tensor) : by_size(number, tensor);
}

Way WayChoice::by_size(std::uint32_t number, const PlanTensor& tensor) const {
  if (may(number, tensor, Way::direct) && large(tensor, tensor.replicas)) return Way::direct;
  if (may(number, tensor, Way::relay)) return Way::relay;
  // Below that, requests are merged.
  if (may(number, tensor, Way::spread) &&
      estimate(tensor, Way::spread).total() < estimate(tensor, Way::exchange).total()) {
    return Way::spread;
  }
  return Way::exchange;
}

Way WayChoice::cheapest(std::uint32_t number, const PlanTensor& tensor) const {
  // What `slab` and `linear` would take is among them, so none of both is ever cheaper.
  Way best = Way::exchange;
  double least = estimate(tensor, best).total();
  for (Way way : {Way::spread, Way::relay, Way::direct, Way::reread}) {
    if (!may(number, tensor, way)) continue;
    const double cost = estimate(tensor, way).total();
    if (cost <= least) {
      best = way;
      least = cost;
    }
  }
  return best;
}

Estimate WayChoice::estimate(const PlanTensor& tensor, Way way) const {
  Estimate out;
  if (way == Way::none || tensor.cell == 0) return out;
  const Costs& costs = params_.costs;
  const double ranks = real(ranks_);
  const double bytes = real(tensor.stored_bytes());
  const double replicas = real(tensor.replicas);
  const double cells = real(tensor.cells);
  const double runs = real(tensor.runs);
  const double cell = real(tensor.cell) * real(tensor.source_size);
  const double shard = real(tensor.cell) * real(tensor.final_size);
  const double worth = real(std::max<std::uint64_t>(1, params_.min_read));
  // `times`: how often each byte is read. `most`: what the rank reads that reads most; of a dimension shorter than the ranks,
  // some read nothing.
  auto reading = [&](double times, double most, double requests) {
    if (tensor.fill) return 0.0;
    return std::max(times * bytes / costs.fs(), most / costs.fs_per_rank()) + requests * costs.request() / ranks;
  };
  const double missing = shard * (replicas - 1) / replicas;  // what the other owners bring
  switch (way) {
    case Way::none:
      break;
    case Way::direct:
      out.read_s = reading(1, cell / replicas, cells * std::max(replicas, runs));
      if (tensor.replicas > 1) out.fill_s = missing / costs.fabric() + hops(tensor.replicas) * costs.message();
      break;
    case Way::relay: {
      const double stretches = 1 + cell / real(kStretchBytes);
      out.read_s = reading(1, cell / replicas, cells * std::max(stretches, runs));
      out.fill_s = missing / costs.fabric() + stretches * hops(tensor.replicas) * costs.message();
      break;
    }
    case Way::reread:
      out.read_s = reading(replicas, cell, cells * replicas * runs);
      break;
    case Way::exchange: {
      const double readers = 1 + std::min(bytes / kExtent, ranks - 1);
      out.read_s = reading(1, bytes / ranks, readers);
      // What all own, every reader broadcasts. Else each cell gets its pieces, of a slab of an inner dimension one of every
      // reader's extent, and with several owners one of them then broadcasts it.
      double messages = readers * hops(ranks_);
      if (tensor.sharded) messages = (tensor.strided ? readers : 1 + readers / cells) + (tensor.replicas > 1 ? hops(tensor.replicas) : 0);
      out.fill_s = shard * (1 - 1 / ranks) / costs.fabric() + messages * costs.message();
      out.copy_s = (tensor.strided ? 2 : 1) * shard / costs.copy();
      break;
    }
    case Way::spread: {
      const double final_bytes = real(tensor.elements) * real(tensor.final_size);
      const double windows = bytes / worth;  // the share of a request
      out.read_s = reading(1, bytes / ranks, windows);
      out.fill_s = final_bytes * (1 - 1 / ranks) / costs.fabric() + windows * hops(ranks_) * costs.message();
      out.copy_s = shard / costs.copy();
      break;
    }
  }
  return out;
}

std::vector<StrategyEstimate> estimate_strategies(const TensorIndex& index, const Layout& layout,
                                                  const PlanParams& params) {
  const std::uint64_t ranks = layout.mesh().ranks();
  const std::vector<PlanTensor> tensors = plan_tensors(index, layout, params);
  PlanParams own = params;
  own.strategy = "slab";
  const std::uint64_t round = checked_split(own, converts_any(index, params.cast)).round_bytes;
  WayChoice choice(index, params, round, ranks);
  std::vector<StrategyEstimate> out;
  for (const char* strategy : {"slab", "linear", "auto"}) {
    Estimate sum;
    for (std::uint32_t t = 0; t < tensors.size(); ++t)
      sum.add(choice.estimate(tensors[t], choice.choose(strategy, t, tensors[t])));
    out.push_back({strategy, sum, false});
  }
  double kept = 0;  // of one rank
  double stored = 0;
  double widest = 0;  // of the final types
  double requests = 0;
  for (const PlanTensor& tensor : tensors) {
    if (!tensor.fill) stored += real(tensor.stored_bytes());
    widest += real(tensor.elements) * real(tensor.final_size);
    kept += real(tensor.cell) * real(tensor.final_size);
    requests += 1;
  }
  const Costs& costs = params.costs;
  const double alone = std::max(stored / costs.fs(), stored / costs.fs_per_rank()) + requests * costs.request();
  Estimate broadcast{alone, ranks == 1 ? 0 : widest / costs.fabric() + requests * hops(ranks) * costs.message(),
                     kept / costs.copy()};
  out.push_back({"rank0-broadcast", broadcast, true});
  out.push_back({"rank0-full", broadcast, true});
  const double all = std::max(stored * real(ranks) / costs.fs(), stored / costs.fs_per_rank());
  out.push_back({"every-rank", {all + requests * costs.request(), 0, kept / costs.copy()}, true});
  return out;
}

}  // namespace slabload
