// ncclCommSplit, step by step.
#pragma once

#include <nccl.h>

#include <memory>
#include <optional>
#include <string>

#include "communicator.h"

namespace fakenccl {

class Split {
 public:
  // `color` NCCL_SPLIT_NOCOLOR: the rank takes part, but is in no new communicator.
  Split(std::shared_ptr<Communicator> parent, int color, int key, Options options, ncclComm_t* result);

  // Goes on as far as the other ranks allow; at the end sets *result.
  std::optional<ncclResult_t> advance();
  std::string waits_for() const;

 private:
  SplitSide& side(int rank) const;
  bool all_posted() const;
  // Makes this rank's end of the new communicator, once the first of its ranks has made the file.
  std::optional<ncclResult_t> join();

  std::shared_ptr<Communicator> parent_;
  const std::uint64_t number_;
  const int color_;
  const Options options_;
  ncclComm_t* const result_;
  std::shared_ptr<Communicator> child_;
};

}  // namespace fakenccl
