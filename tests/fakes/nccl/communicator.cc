#include "communicator.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "../cuda/hooks.h"
#include "names.h"
#include "settings.h"

namespace fakenccl {
namespace {

// How often a communicator that doesn't block says that it is in progress, at the least, of each piece of
// work. The first time counts as a call of "settle", so that a fault can take just this wait out.
constexpr int least_answers = 2;

std::vector<const Communicator*>& attached() {
  static auto* const all = new std::vector<const Communicator*>;
  return *all;
}

}  // namespace

Communicator::Communicator(int ranks, int rank, Options options, std::shared_ptr<Communicator> parent)
    : next_send(static_cast<std::size_t>(ranks)),
      next_receive(static_cast<std::size_t>(ranks)),
      ranks_(ranks),
      rank_(rank),
      device_(fakecuda_device()),
      options_(options),
      parent_(std::move(parent)),
      family_(parent_ && parent_->options_.split_share ? parent_->family_ : std::make_shared<Family>()) {}

Communicator::~Communicator() {
  std::erase(attached(), this);
  close_own_file();
  release();
}

std::string Communicator::name() const {
  return text("communicator %04x", static_cast<unsigned>(shared_.header().token % 0x10000));
}

std::string Communicator::rank_text(int rank) const {
  const RankBlock& block = shared_.rank(rank);
  if (block.presence.load() == Presence::absent) return text("rank %d of %d", rank, ranks_);
  return text("rank %d of %d (world rank %d)", rank, ranks_, block.world_rank);
}

ncclResult_t Communicator::charge() {
  const bool shares = parent_ && parent_->options_.split_share;
  const std::uint64_t bytes = settings().memory / (shares ? 4 : 1);
  if (fakecuda_charge(bytes) != 0)
    return failed(ncclUnhandledCudaError,
                  text("Failed to CUDA calloc %llu bytes", static_cast<unsigned long long>(bytes)));
  charged_ = bytes;
  return ncclSuccess;
}

ncclResult_t Communicator::join(const FileName& file) {
  if (!shared_.open(file, ranks_))
    return failed(ncclSystemError,
                  "Call to connect failed: the process that made the unique id is gone or done");
  file_ = file;
  RankBlock& block = own();
  int free = 0;
  if (!block.taken.compare_exchange_strong(free, 1))
    fakecuda_violation(
        "two ranks have joined a communicator as rank %d of %d, or one unique id was used twice", rank_,
        ranks_);
  block.pid = getpid();
  block.start_time = start_time_of(block.pid).value_or(0);
  block.world_rank = fakecuda_rank();
  block.device = device_;
  block.host = settings().host;
  block.version = settings().version;
  block.presence.store(Presence::joined);
  shared_.header().joined.fetch_add(1);
  attached_ = true;
  attached().push_back(this);
  note_progress();
  return ncclSuccess;
}

std::optional<ncclResult_t> Communicator::all_joined() {
  if (shared_.header().joined.load() < ranks_) return std::nullopt;
  close_own_file();
  return check_peers();
}

ncclResult_t Communicator::check_peers() const {
  const RankBlock& mine = own();
  for (int rank = 0; rank < ranks_; ++rank) {
    const RankBlock& other = shared_.rank(rank);
    if (other.version != mine.version)
      return failed(ncclInvalidUsage,
                    text("Mismatched NCCL version detected : rank %d version %d rank %d version %d", rank,
                         other.version, rank_, mine.version));
    for (int before = 0; before < rank; ++before) {
      const RankBlock& first = shared_.rank(before);
      if (first.host == other.host && first.device == other.device)
        return failed(ncclInvalidUsage,
                      text("Duplicate GPU detected : rank %d and rank %d both on CUDA device %x", before,
                           rank, (other.device + 1) << 12));
    }
  }
  return ncclSuccess;
}

void Communicator::close_own_file() {
  if (file_ && file_->pid == getpid()) close_file(*file_);
  file_.reset();
}

std::string Communicator::missing_ranks() const {
  std::string all;
  for (int rank = 0; rank < ranks_; ++rank)
    if (shared_.rank(rank).presence.load() == Presence::absent)
      all += text("%s%d", all.empty() ? "" : ", ", rank);
  return all;
}

ncclResult_t Communicator::begin(Work work, std::function<std::string()> waits_for) {
  work_ = std::move(work);
  waits_for_ = std::move(waits_for);
  stall_ = Stall();
  answers_left_ = least_answers;
  if (!options_.blocking) return ncclInProgress;
  for (;;) {
    if (const auto result = try_work()) return *result;
    fakecuda_progress();
    usleep(200);
  }
}

std::optional<ncclResult_t> Communicator::try_work() {
  const std::optional<ncclResult_t> result = work_();
  if (!result) {
    if (attached_) stall_.check(*this, waits_for_);
    return std::nullopt;
  }
  work_ = nullptr;
  stall_.end();
  error_ = *result;
  return result;
}

ncclResult_t Communicator::poll() {
  if (!work_ || error_ != ncclSuccess) return error_;
  if (answers_left_ == least_answers) {
    // A program that would not wait for this piece of work goes on here.
    int skip = 0;
    const int code = fakecuda_fault("settle", &skip);
    if (code != 0) set_error(failed(static_cast<ncclResult_t>(code), "injected asynchronous error"));
    if (skip || code != 0) --answers_left_;
    if (skip || code != 0) return error_;
  }
  if (answers_left_ > 0) {
    --answers_left_;
    return ncclInProgress;
  }
  return try_work().value_or(ncclInProgress);
}

void Communicator::abort() {
  family_->stopped = true;
  work_ = nullptr;
  for (const Communicator* each : attached())
    if (each->family_ == family_) each->leave(Presence::aborted);
}

void Communicator::release() {
  fakecuda_uncharge(charged_);
  charged_ = 0;
}

void Communicator::leave(Presence presence) const {
  Presence joined = Presence::joined;
  if (!attached_ || !own().presence.compare_exchange_strong(joined, presence)) return;
  note_progress();
}

void Communicator::note_progress() const {
  for (const Communicator* each = this; each; each = each->parent_.get()) each->shared_.note_progress();
}

void publish_wait(const std::string& waits_for) {
  for (const Communicator* each : attached()) {
    RankBlock& block = each->own();
    const std::size_t length = std::min(waits_for.size(), sizeof block.waits_for - 1);
    std::memcpy(block.waits_for, waits_for.data(), length);
    block.waits_for[length] = 0;
  }
}

}  // namespace fakenccl
