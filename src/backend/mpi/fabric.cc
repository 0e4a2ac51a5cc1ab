#include "backend/mpi/fabric.h"

#include <algorithm>

#include "backend/mpi/call.h"
#include "base/narrow.h"
#include "base/stopwatch.h"

namespace slabload::mpi {
namespace {

constexpr int kTag = 1;

}  // namespace

MpiFabric::MpiFabric(MPI_Comm parent) : world_(Comm::duplicate(parent)) {}

void MpiFabric::connect(const std::vector<std::vector<int>>& ranks_of_group, const std::vector<int>&) {
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

void MpiFabric::all_gather(std::size_t group, void* data, std::uint64_t bytes, std::uint64_t part) {
  MPI_Comm comm = groups_.at(group).get();
  if (comm != MPI_COMM_NULL) gathered_.push_back({Transfer::Kind::all_gather, comm, 0, data, bytes, part});
}

void MpiFabric::broadcast(std::size_t group, int root, void* data, std::uint64_t bytes) {
  MPI_Comm comm = groups_.at(group).get();
  if (comm != MPI_COMM_NULL) gathered_.push_back({Transfer::Kind::broadcast, comm, root, data, bytes, 0});
}

void MpiFabric::send(int peer, const void* data, std::uint64_t bytes) {
  // Only read.
  gathered_.push_back({Transfer::Kind::send, world_.get(), peer, const_cast<void*>(data), bytes, 0});
}

void MpiFabric::receive(int peer, void* data, std::uint64_t bytes) {
  gathered_.push_back({Transfer::Kind::receive, world_.get(), peer, data, bytes, 0});
}

void MpiFabric::issue(const Transfer& transfer, Set& set) {
  MPI_Request* request = &set.requests.emplace_back(MPI_REQUEST_NULL);
  switch (transfer.kind) {
    case Transfer::Kind::all_gather: {
      int size = 0;
      SLABLOAD_MPI(MPI_Comm_size, transfer.comm, &size);
      GatherCounts& layout = set.counts.emplace_back();
      for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(size); ++i) {
        std::uint64_t begin = std::min(transfer.bytes, i * transfer.part);
        std::uint64_t end = std::min(transfer.bytes, begin + transfer.part);
        layout.offsets.push_back(narrow<int>(begin));
        layout.counts.push_back(narrow<int>(end - begin));
      }
      SLABLOAD_MPI(MPI_Iallgatherv, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, transfer.data, layout.counts.data(),
                   layout.offsets.data(), MPI_BYTE, transfer.comm, request);
      break;
    }
    case Transfer::Kind::broadcast:
      SLABLOAD_MPI(MPI_Ibcast, transfer.data, narrow<int>(transfer.bytes), MPI_BYTE, transfer.peer,
                   transfer.comm, request);
      break;
    case Transfer::Kind::send:
      SLABLOAD_MPI(MPI_Isend, transfer.data, narrow<int>(transfer.bytes), MPI_BYTE, transfer.peer, kTag,
                   transfer.comm, request);
      break;
    case Transfer::Kind::receive:
      SLABLOAD_MPI(MPI_Irecv, transfer.data, narrow<int>(transfer.bytes), MPI_BYTE, transfer.peer, kTag,
                   transfer.comm, request);
      break;
  }
}

Fabric::Ticket MpiFabric::start() {
  Set& set = under_way_.emplace_back();
  set.begin_s = now_s();
  set.requests.reserve(gathered_.size());
  for (const Transfer& transfer : gathered_) issue(transfer, set);
  gathered_.clear();
  return oldest_ + under_way_.size() - 1;
}

void MpiFabric::progress() {
  if (under_way_.empty()) return;
  std::vector<MPI_Request>& requests = under_way_.front().requests;
  // One look moves what a socket holds at that moment; a few in a row fill its buffers for the next piece's time.
  constexpr int kLooks = 16;
  for (int look = 0; look < kLooks; ++look) {
    int index = 0;
    int flag = 0;
    SLABLOAD_MPI(MPI_Testany, narrow<int>(requests.size()), requests.data(), &index, &flag, MPI_STATUS_IGNORE);
  }
}

std::optional<Span> MpiFabric::finished(Ticket ticket) {
  if (under_way_.empty() || ticket != oldest_)
    fail(Status::internal, "set {} is not the oldest under way", ticket);
  Set& set = under_way_.front();
  int all = 0;
  SLABLOAD_MPI(MPI_Testall, narrow<int>(set.requests.size()), set.requests.data(), &all, MPI_STATUSES_IGNORE);
  if (all == 0) return std::nullopt;
  Span span{set.begin_s, now_s()};
  under_way_.pop_front();
  ++oldest_;
  return span;
}

}  // namespace slabload::mpi
