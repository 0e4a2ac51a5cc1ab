// A whole load on the ranks of a session: index, plan, read and fill, proof, report.
#pragma once

#include <memory>

#include "app/checkpoint.h"
#include "app/hardware.h"
#include "backend/safetensors/shard_file.h"
#include "exec/loader.h"
#include "plan/simulate.h"
#include "report/load_report.h"

namespace slabload {

// What a run leaves: the shards in memory, and where each tensor's lies in them.
struct Loaded {
  std::shared_ptr<Device> device;  // the one that the shards lie on
  LoadPlan plan;
  LoadResult result;
  LoadReport report;    // per_rank is filled on rank 0 only
  Timeline timeline;    // of this rank
  double origin_s = 0;  // now_s() at the start of the load, right after a barrier
};

class LoadJob {
 public:
  // Reads and shares the index, makes the layout. Collective. Errors are agreed.
  LoadJob(Session& session, const RunOptions& options);

  const TensorIndex& index() const { return index_; }
  const Layout& layout() const { return *layout_; }
  Hardware& hardware() const { return *hardware_; }

  // Loads once by a strategy (not "auto"; see chosen_strategy). Collective.
  Loaded run(const std::string& strategy, VerifyMode verify, Watchdog& watchdog) const;

  // Writes the timelines of all ranks. Collective; errors are agreed.
  void write_timeline(const Loaded& loaded, const std::string& path) const;

  // What "auto" stands for.
  std::string chosen_strategy() const;

  // Writes this rank's shards as DIR/rank-00017.safetensors. A folder that holds shards of higher ranks is
  // refused, and if any rank fails none leaves a file. Collective; errors are agreed.
  void stage_out(const Loaded& loaded, const std::string& folder) const;

  PlanParams params_for(const std::string& strategy) const;

 private:
  LoadReport describe(const std::string& strategy, const Planner& planner) const;

  Session& session_;
  const RunOptions& options_;
  void write_shards(const Loaded& loaded, const std::string& folder, const std::string& path,
                    const std::string& set) const;
  std::uint64_t stage_out_piece() const;
  ShardView host_view(const Loaded& loaded) const;

  double index_begin_s_ = 0;  // as now_s() counts
  double index_s_ = 0;
  std::unique_ptr<Hardware> hardware_;
  Costs costs_;  // of --cost
  std::vector<std::uint32_t> nodes_;  // of every rank
  TensorIndex index_;
  std::unique_ptr<Layout> layout_;
  std::string rules_;  // the text, if the layout is a rules file
};

// Lines for the report: what is converted, narrowed, skipped, or read in another way than asked for.
std::vector<std::string> load_notes(const TensorIndex& index, const Layout& layout,
                                    const RunOptions& options);

// The line for a load that left wrong data: the checkpoint, how many tensors, the first of them. report.wrong
// is not empty.
std::string wrong_data_text(const LoadReport& report);

// What the planner is told; `pinned`: for a GPU.
PlanParams plan_params(const RunOptions& options, const std::string& strategy, bool pinned);


}  // namespace slabload
