#include "backend/mpi/control.h"

#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "backend/mpi/call.h"
#include "base/current_call.h"
#include "base/narrow.h"

namespace slabload::mpi {
namespace {

constexpr std::uint64_t kPiece = std::uint64_t{1} << 28;  // one call's share: MPI counts are int
// Short enough that MPI sends it without waiting for the receiver (Open MPI's shared memory: below 4 KiB).
constexpr std::size_t kAlarmBytes = 2048;
constexpr int kAlarmTag = 1;

}  // namespace

std::string host_name() {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0) return "?";
  return name;
}

MpiControl::MpiControl(MPI_Comm parent)
    : comm_(Comm::duplicate(parent)),
      rank_(comm_.rank()),
      ranks_(comm_.size()),
      host_(host_name()),
      alarms_(Comm::duplicate(parent)) {}

// Alarms still on their way are those that no agreement has settled: the job is about to be ended.
MpiControl::~MpiControl() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized || sending_.empty()) return;
  int sent = 0;
  MPI_Testall(static_cast<int>(sending_.size()), sending_.data(), &sent, MPI_STATUSES_IGNORE);
  if (sent) return;
  for (MPI_Request& request : sending_) {
    if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
  }
  // MPI may read them for as long as the process lives.
  static auto* kept = new std::vector<std::vector<char>>;
  kept->push_back(std::move(alarm_));
}

void MpiControl::barrier() {
  WaitsForOthers scope;
  SLABLOAD_MPI(MPI_Barrier, comm_.get());
}

std::string MpiControl::broadcast(std::string bytes, int root) {
  WaitsForOthers scope;
  std::uint64_t size = bytes.size();
  SLABLOAD_MPI(MPI_Bcast, &size, 1, MPI_UINT64_T, root, comm_.get());
  bytes.resize(size);
  for (std::uint64_t done = 0; done < size; done += kPiece) {
    int count = narrow<int>(std::min(kPiece, size - done));
    SLABLOAD_MPI(MPI_Bcast, bytes.data() + done, count, MPI_BYTE, root, comm_.get());
  }
  return bytes;
}

std::vector<std::string> MpiControl::gather(const std::string& bytes) {
  WaitsForOthers scope;
  int size = narrow<int>(bytes.size());
  bool root = rank_ == 0;
  std::vector<int> sizes(root ? static_cast<std::size_t>(ranks_) : 0);
  SLABLOAD_MPI(MPI_Gather, &size, 1, MPI_INT, sizes.data(), 1, MPI_INT, 0, comm_.get());
  std::vector<int> offsets(sizes.size());
  std::uint64_t total = std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
  narrow<int>(total);
  std::exclusive_scan(sizes.begin(), sizes.end(), offsets.begin(), 0);
  std::string all(total, '\0');
  SLABLOAD_MPI(MPI_Gatherv, bytes.data(), size, MPI_BYTE, all.data(), sizes.data(), offsets.data(), MPI_BYTE,
               0, comm_.get());
  std::vector<std::string> out;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    out.push_back(all.substr(static_cast<std::size_t>(offsets[i]), static_cast<std::size_t>(sizes[i])));
  }
  return out;
}

void MpiControl::reduce(std::span<std::uint64_t> values, MPI_Op op) {
  WaitsForOthers scope;
  std::uint64_t piece = kPiece / sizeof(std::uint64_t);
  for (std::uint64_t done = 0; done < values.size(); done += piece) {
    int count = narrow<int>(std::min<std::uint64_t>(piece, values.size() - done));
    SLABLOAD_MPI(MPI_Allreduce, MPI_IN_PLACE, values.data() + done, count, MPI_UINT64_T, op, comm_.get());
  }
}

std::string MpiControl::told(const Error& error) const {
  return rank_ == 0 ? error.message() : fmt::format("[rank {} {}] {}", rank_, host_, error.message());
}

void MpiControl::agree(const std::optional<Error>& mine) {
  WaitsForOthers scope;
  int failed = mine ? rank_ : ranks_;
  int first = ranks_;
  SLABLOAD_MPI(MPI_Allreduce, &failed, &first, 1, MPI_INT, MPI_MIN, comm_.get());
  if (first == ranks_) return;
  std::string message;
  int status = static_cast<int>(Status::internal);
  if (first == rank_) {
    status = static_cast<int>(mine->status());
    message = told(*mine);
  }
  SLABLOAD_MPI(MPI_Bcast, &status, 1, MPI_INT, first, comm_.get());
  message = broadcast(std::move(message), first);
  settle_alarms();
  throw Error(static_cast<Status>(status), message).as_agreed(first);
}

void MpiControl::alarm(const Error& mine) {
  if (!alarm_.empty()) return;
  std::string text = told(mine).substr(0, kAlarmBytes - 1);
  alarm_.assign(1, static_cast<char>(mine.status()));
  alarm_.insert(alarm_.end(), text.begin(), text.end());
  for (int other = 0; other < ranks_; ++other) {
    if (other == rank_) continue;
    SLABLOAD_MPI(MPI_Isend, alarm_.data(), narrow<int>(alarm_.size()), MPI_BYTE, other, kAlarmTag,
                 alarms_.get(), &sending_.emplace_back(MPI_REQUEST_NULL));
  }
}

std::optional<Error> MpiControl::alarmed() {
  int come = 0;
  SLABLOAD_MPI(MPI_Iprobe, MPI_ANY_SOURCE, kAlarmTag, alarms_.get(), &come, MPI_STATUS_IGNORE);
  if (come) hear_alarm();
  return heard_;
}

// Waits for one if none has come.
void MpiControl::hear_alarm() {
  char bytes[kAlarmBytes];
  MPI_Status from;
  SLABLOAD_MPI(MPI_Recv, bytes, sizeof bytes, MPI_BYTE, MPI_ANY_SOURCE, kAlarmTag, alarms_.get(), &from);
  int size = 0;
  SLABLOAD_MPI(MPI_Get_count, &from, MPI_BYTE, &size);
  if (size < 1) fail(Status::internal, "an empty alarm from rank {}", from.MPI_SOURCE);
  ++alarms_heard_;
  if (heard_) return;
  std::string text(bytes + 1, static_cast<std::size_t>(size) - 1);
  heard_ = Error(static_cast<Status>(static_cast<unsigned char>(bytes[0])), text).as_second_hand(from.MPI_SOURCE);
}

// Every rank hears all the others' alarms and knows that its own was heard. Collective.
void MpiControl::settle_alarms() {
  const int mine = alarm_.empty() ? 0 : 1;
  int all = 0;
  SLABLOAD_MPI(MPI_Allreduce, &mine, &all, 1, MPI_INT, MPI_SUM, comm_.get());
  while (alarms_heard_ < all - mine) hear_alarm();
  SLABLOAD_MPI(MPI_Waitall, narrow<int>(sending_.size()), sending_.data(), MPI_STATUSES_IGNORE);
  // No rank may raise its next alarm while another still waits for one of these.
  barrier();
  sending_.clear();
  alarm_.clear();
  heard_.reset();
  alarms_heard_ = 0;
}

}  // namespace slabload::mpi
