// Operations that are put into a stream together, and the rules for them.
#pragma once

#include <nccl.h>

#include <memory>
#include <string>
#include <vector>

#include "communicator.h"
#include "operation.h"

namespace fakenccl {

// The operations of one group call, or one operation by itself.
class Group {
 public:
  // Starts empty.
  Group(std::shared_ptr<Communicator> communicator, void* stream)
      : communicator_(std::move(communicator)), stream_(stream) {}
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // Ends the process where a rule is broken: one communicator and one stream in a group, 256 operations at
  // most, none that depends on another, and no operation while another stream has one.
  void add(const Operation& operation, const Communicator& communicator, void* stream);

  // Puts the group into its stream: at once, or later where the communicator doesn't block.
  static ncclResult_t launch(std::unique_ptr<Group> group);

 private:
  static int step(void* group);
  static void drop(void* group);
  static ncclResult_t enqueue(std::unique_ptr<Group> group);
  int step();
  void end();
  std::string waits_for() const;

  std::shared_ptr<Communicator> communicator_;
  void* stream_;
  std::vector<Operation> operations_;
  std::vector<FakeAccess> accesses_;
  Stall stall_;
  bool in_stream_ = false;
  bool started_ = false;
};

// While one of these lives no group ends: the product cannot know that an operation has ended before it asks
// CUDA, so between two NCCL calls the earlier operation is taken to be pending.
class NothingEnds {
 public:
  NothingEnds();
  ~NothingEnds();
  NothingEnds(const NothingEnds&) = delete;
  NothingEnds& operator=(const NothingEnds&) = delete;
};

}  // namespace fakenccl
