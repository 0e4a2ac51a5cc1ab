#include "backend/mpi/control.h"

#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "backend/mpi/call.h"
#include "base/narrow.h"

namespace slabload::mpi {
namespace {

constexpr std::uint64_t kPiece = std::uint64_t{1} << 28;  // one call's share: MPI counts are int

std::string host_name() {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0) return "?";
  return name;
}

}  // namespace

MpiControl::MpiControl(MPI_Comm parent)
    : comm_(Comm::duplicate(parent)), rank_(comm_.rank()), ranks_(comm_.size()), host_(host_name()) {}

void MpiControl::barrier() {
  SLABLOAD_MPI(MPI_Barrier, comm_.get());
}

std::string MpiControl::broadcast(std::string bytes, int root) {
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
  std::uint64_t piece = kPiece / sizeof(std::uint64_t);
  for (std::uint64_t done = 0; done < values.size(); done += piece) {
    int count = narrow<int>(std::min<std::uint64_t>(piece, values.size() - done));
    SLABLOAD_MPI(MPI_Allreduce, MPI_IN_PLACE, values.data() + done, count, MPI_UINT64_T, op, comm_.get());
  }
}

void MpiControl::agree(const std::optional<Error>& mine) {
  int failed = mine ? rank_ : ranks_;
  int first = ranks_;
  SLABLOAD_MPI(MPI_Allreduce, &failed, &first, 1, MPI_INT, MPI_MIN, comm_.get());
  if (first == ranks_) return;
  std::string message;
  int status = static_cast<int>(Status::internal);
  if (first == rank_) {
    status = static_cast<int>(mine->status());
    message = rank_ == 0 ? mine->message() : fmt::format("[rank {} {}] {}", rank_, host_, mine->message());
  }
  SLABLOAD_MPI(MPI_Bcast, &status, 1, MPI_INT, first, comm_.get());
  message = broadcast(std::move(message), first);
  throw Error(static_cast<Status>(status), message).as_agreed(first);
}

}  // namespace slabload::mpi
