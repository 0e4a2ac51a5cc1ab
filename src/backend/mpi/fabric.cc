#include "backend/mpi/fabric.h"

#include <algorithm>

#include "backend/mpi/call.h"
#include "base/narrow.h"

namespace slabload::mpi {
namespace {

constexpr int kTag = 1;

}  // namespace

MpiFabric::MpiFabric(MPI_Comm parent) : world_(Comm::duplicate(parent)) {}

MpiFabric::~MpiFabric() = default;

void MpiFabric::make_groups(const std::vector<std::vector<int>>& ranks_of_group) {
  groups_.clear();
  int size = world_.size();
  for (const std::vector<int>& members : ranks_of_group) {
    if (members.empty()) fail(Status::internal, "an empty group of ranks");
    if (size == 1) {
      groups_.emplace_back();
    } else if (narrow<int>(members.size()) == size) {
      groups_.push_back(Comm::duplicate(world_.get()));
    } else {
      groups_.push_back(Comm::split(world_.get(), members.front(), world_.rank()));
    }
  }
}

// A pointer into requests_ is used at once, before the next push.
MPI_Request* MpiFabric::next_request() {
  requests_.push_back(MPI_REQUEST_NULL);
  return &requests_.back();
}

void MpiFabric::all_gather(std::size_t group, void* data, std::uint64_t bytes, std::uint64_t part) {
  const Comm& comm = groups_.at(group);
  if (comm.get() == MPI_COMM_NULL) return;
  auto size = static_cast<std::size_t>(comm.size());
  GatherCounts& layout = counts_.emplace_back();
  for (std::uint64_t i = 0; i < size; ++i) {
    std::uint64_t begin = std::min(bytes, i * part);
    std::uint64_t end = std::min(bytes, begin + part);
    layout.offsets.push_back(narrow<int>(begin));
    layout.counts.push_back(narrow<int>(end - begin));
  }
  SLABLOAD_MPI(MPI_Iallgatherv, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data, layout.counts.data(),
               layout.offsets.data(), MPI_BYTE, comm.get(), next_request());
}

void MpiFabric::broadcast(std::size_t group, int root, void* data, std::uint64_t bytes) {
  const Comm& comm = groups_.at(group);
  if (comm.get() == MPI_COMM_NULL) return;
  SLABLOAD_MPI(MPI_Ibcast, data, narrow<int>(bytes), MPI_BYTE, root, comm.get(), next_request());
}

void MpiFabric::send(int peer, const void* data, std::uint64_t bytes) {
  SLABLOAD_MPI(MPI_Isend, data, narrow<int>(bytes), MPI_BYTE, peer, kTag, world_.get(), next_request());
}

void MpiFabric::receive(int peer, void* data, std::uint64_t bytes) {
  SLABLOAD_MPI(MPI_Irecv, data, narrow<int>(bytes), MPI_BYTE, peer, kTag, world_.get(), next_request());
}

void MpiFabric::progress() {
  if (requests_.empty()) return;
  int index = 0;
  int flag = 0;
  SLABLOAD_MPI(MPI_Testany, narrow<int>(requests_.size()), requests_.data(), &index, &flag,
               MPI_STATUS_IGNORE);
}

void MpiFabric::finish() {
  if (!requests_.empty()) {
    SLABLOAD_MPI(MPI_Waitall, narrow<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
  }
  requests_.clear();
  counts_.clear();
}

}  // namespace slabload::mpi
