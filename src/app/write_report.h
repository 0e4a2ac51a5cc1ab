// The report of a verb that writes a checkpoint.
#pragma once

#include <string>

#include "app/session.h"
#include "base/stopwatch.h"
#include "exec/transfer.h"
#include "index/tensor_index.h"

namespace slabload {

class WriteReport {
 public:
  // Starts the clock.
  WriteReport(Session& session, std::string verb, std::string source, std::string target);

  // The text, on rank 0. `stored`: the target has the checksums; else it says how many were compared with the
  // source's. Collective.
  std::string finish(const TensorIndex& index, const TransferResult& result, bool stored = true);

 private:
  Session& session_;
  std::string verb_, source_, target_;
  Stopwatch watch_;
};

}  // namespace slabload
