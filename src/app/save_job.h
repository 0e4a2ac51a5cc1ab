// Shards on the ranks of a session become one checkpoint: planned, written, proved, renamed.
#pragma once

#include <memory>

#include "app/hardware.h"
#include "app/options.h"
#include "app/session.h"
#include "app/watchdog.h"
#include "exec/saver.h"
#include "layout/layout.h"
#include "report/save_report.h"

namespace slabload {

// What is to be saved: tensor by tensor the shards that `layout` gives this rank, in memory of `device`.
struct SaveSource {
  TensorIndex index;   // names, shapes and final dtypes; of an HDF5 file, its attributes are kept
  ShardSource shards;  // as SavePlanner lays them out, or each apart
  std::shared_ptr<Device> device;
  std::string name;  // for the report
  double seconds = 0;  // what it took to get there
};

class SaveJob {
 public:
  // Keeps references. Collective.
  SaveJob(Session& session, const RunOptions& options, const Layout& layout, Hardware& hardware);

  // This rank's part of a plan for a target that is not there yet: where its shards are expected. Not collective.
  SavePlan plan(const TensorIndex& target) const;

  // To be called first: refuses what no file has to be opened for, a plan that does not fit (Status::usage) and ranks that
  // were asked for different things (Status::peer). Collective; agreed.
  void check(const TensorIndex& target) const;

  // Writes options.out. Collective; errors are agreed unless ranks write together. The target is what it was, or whole.
  SaveReport run(const SaveSource& source, Watchdog& watchdog) const;

 private:
  Session& session_;
  const RunOptions& options_;
  const Layout& layout_;
  Hardware& hardware_;
  PlanParams params_;
};

}  // namespace slabload
