#include "group.h"

#include <algorithm>

#include "names.h"

namespace fakenccl {
namespace {

constexpr std::size_t most_operations = 256;

int holds = 0;

// The groups that were issued and have not ended.
std::vector<Group*>& live() {
  static auto* const all = new std::vector<Group*>;
  return *all;
}

const std::byte* begin_of(const FakeAccess& access) {
  return static_cast<const std::byte*>(access.address);
}

bool conflict(const FakeAccess& a, const FakeAccess& b) {
  return (a.writes || b.writes) && begin_of(a) < begin_of(b) + b.bytes && begin_of(b) < begin_of(a) + a.bytes;
}

}  // namespace

NothingEnds::NothingEnds() {
  ++holds;
}
NothingEnds::~NothingEnds() {
  --holds;
}

Group::~Group() {
  std::erase(live(), this);
}

void Group::add(const Operation& operation, const Communicator& communicator, void* stream) {
  const std::string name = text_of(operation.signature());
  if (&communicator != communicator_.get())
    fakecuda_violation("%s: a group has operations of two communicators", name.c_str());
  if (stream != stream_) fakecuda_violation("%s: a group has operations for two streams", name.c_str());
  if (operations_.size() == most_operations)
    fakecuda_violation("%s: a group has more than %zu operations", name.c_str(), most_operations);
  for (const Group* other : live()) {
    const bool same = other->communicator_ == communicator_;
    // Until a communicator that doesn't block has put its group into the stream, the streams order nothing.
    const bool ordered = other->stream_ == stream && (same || other->in_stream_);
    if (!ordered && !other->communicator_->stopped())
      fakecuda_violation(
          "%s while %s of %s communicator is pending %s: nothing orders them alike on all ranks",
          name.c_str(), text_of(other->operations_.front().signature()).c_str(), same ? "this" : "another",
          other->in_stream_ ? "on another stream" : "and in progress");
  }
  for (const FakeAccess& access : operation.accesses()) {
    for (const FakeAccess& other : accesses_)
      if (conflict(access, other))
        fakecuda_violation("%s: depends on the memory of another operation of its group", name.c_str());
  }
  const std::vector<FakeAccess> more = operation.accesses();
  accesses_.insert(accesses_.end(), more.begin(), more.end());
  operations_.push_back(operation);
}

ncclResult_t Group::launch(std::unique_ptr<Group> group) {
  live().push_back(group.get());
  const std::shared_ptr<Communicator> communicator = group->communicator_;
  if (communicator->options().blocking) return enqueue(std::move(group));
  // A std::function is copied, so the group waits in a shared pointer.
  const auto waiting = std::make_shared<std::unique_ptr<Group>>(std::move(group));
  return communicator->begin(
      [waiting]() -> std::optional<ncclResult_t> { return enqueue(std::move(*waiting)); },
      [] { return std::string("ncclGroupEnd"); });
}

ncclResult_t Group::enqueue(std::unique_ptr<Group> group) {
  const NothingEnds held;
  for (Operation& operation : group->operations_) operation.issue();
  const char* name =
      group->operations_.size() == 1 ? name_of(group->operations_.front().signature().kind) : "ncclGroupEnd";
  ++group->communicator_->pending;
  group->in_stream_ = true;
  Group* given = group.release();
  const int status =
      fakecuda_enqueue(given->stream_, name, given->accesses_.data(),
                       static_cast<int>(given->accesses_.size()), &Group::step, &Group::drop, given);
  if (status == 0) return ncclSuccess;
  delete given;
  return failed(ncclUnhandledCudaError, text("Cuda failure %d", status));
}

int Group::step(void* group) {
  return static_cast<Group*>(group)->step();
}

int Group::step() {
  if (communicator_->stopped()) {
    for (Operation& operation : operations_) operation.give_up();
    end();
    return 1;
  }
  if (!started_)
    for (Operation& operation : operations_) operation.start();
  started_ = true;
  bool all = true;
  for (Operation& operation : operations_) all = operation.advance() && all;
  if (!all) stall_.check(*communicator_, [this] { return waits_for(); });
  if (!all || holds > 0) return 0;
  for (Operation& operation : operations_) operation.finish();
  end();
  return 1;
}

std::string Group::waits_for() const {
  constexpr int most = 2;
  std::string all;
  int count = 0;
  for (const Operation& operation : operations_)
    if (!operation.ended() && ++count <= most) all += (count > 1 ? ", " : "") + operation.waits_for();
  return count > most ? all + text(" and %d more operations", count - most) : all;
}

void Group::end() {
  stall_.end();
  --communicator_->pending;
  std::erase(live(), this);
}

// A group that is dropped before it has ended stays pending for its communicator: only an abort may follow.
void Group::drop(void* group) {
  delete static_cast<Group*>(group);
}

}  // namespace fakenccl
