#include "backend/nccl/schedule.h"

#include <algorithm>

#include "base/error.h"
#include "base/narrow.h"

namespace slabload::nccl {
namespace {

// Calls visit(offset, bytes) for the pieces of `bytes` bytes that one call may carry; not at all for none.
template <typename Visit>
void for_each_piece(std::uint64_t bytes, Visit&& visit) {
  for (std::uint64_t offset = 0; offset < bytes; offset += kMostBytes) {
    visit(offset, std::min(kMostBytes, bytes - offset));
  }
}

Call send_call(int peer, const std::byte* from, std::uint64_t bytes) {
  return {Call::Kind::send, from, nullptr, bytes, peer};
}

Call receive_call(int peer, std::byte* to, std::uint64_t bytes) {
  return {Call::Kind::receive, nullptr, to, bytes, peer};
}

void add_broadcasts(std::vector<Call>& calls, int root, std::byte* data, std::uint64_t bytes) {
  for_each_piece(bytes, [&](std::uint64_t offset, std::uint64_t size) {
    calls.push_back({Call::Kind::broadcast, data + offset, data + offset, size, root});
  });
}

}  // namespace

Schedule::Schedule(int rank, int ranks, const std::vector<int>& peers, int most_peers,
                   std::vector<Seat> groups)
    : rank_(rank),
      ranks_(ranks),
      is_peer_(static_cast<std::size_t>(ranks)),
      groups_(std::move(groups)),
      collectives_(groups_.size()),
      sent_(static_cast<std::size_t>(ranks)),
      received_(static_cast<std::size_t>(ranks)) {
  for (int peer : peers) is_peer_.at(narrow<std::size_t>(peer)) = peer != rank;
  constexpr std::uint64_t kEachWay = kMostCalls / 2;
  auto most = static_cast<std::uint64_t>(std::max(most_peers, 1));
  // With few peers all pairs share a batch, however far apart they are.
  std::uint64_t blocks = most <= kEachWay ? 1 : ceil_div(static_cast<std::uint64_t>(ranks), kEachWay);
  distances_ = ceil_div(static_cast<std::uint64_t>(ranks), blocks);
  messages_ = kEachWay / std::min(distances_, most);
}

void Schedule::all_gather(std::size_t group, void* data, std::uint64_t bytes, std::uint64_t part) {
  const Seat& seat = groups_.at(group);
  if (seat.members == 1) return;
  std::vector<Call>& calls = collectives_[group];
  auto* region = static_cast<std::byte*>(data);
  auto begin_of = [&](int member) { return std::min(bytes, static_cast<std::uint64_t>(member) * part); };
  auto size_of = [&](int member) { return begin_of(member + 1) - begin_of(member); };
  if (bytes == static_cast<std::uint64_t>(seat.members) * part && part <= kMostBytes) {
    if (bytes > 0) {
      calls.push_back({Call::Kind::all_gather, region + begin_of(seat.position), region, part, 0});
    }
  } else if (seat.members == 2) {
    // Member 0's bytes first at both ends, so that a cut falls between the same pieces.
    for (int member : {0, 1}) {
      for_each_piece(size_of(member), [&](std::uint64_t offset, std::uint64_t size) {
        std::byte* piece = region + begin_of(member) + offset;
        calls.push_back(member == seat.position ? send_call(1 - member, piece, size)
                                                : receive_call(member, piece, size));
      });
    }
  } else {
    for (int member = 0; member < seat.members; ++member) {
      add_broadcasts(calls, member, region + begin_of(member), size_of(member));
    }
  }
}

void Schedule::broadcast(std::size_t group, int root, void* data, std::uint64_t bytes) {
  if (groups_.at(group).members == 1) return;
  add_broadcasts(collectives_[group], root, static_cast<std::byte*>(data), bytes);
}

void Schedule::send(int peer, const void* data, std::uint64_t bytes) {
  check_peer(peer);
  for_each_piece(bytes, [&](std::uint64_t offset, std::uint64_t size) {
    add_message(send_call(peer, static_cast<const std::byte*>(data) + offset, size));
  });
}

void Schedule::receive(int peer, void* data, std::uint64_t bytes) {
  check_peer(peer);
  for_each_piece(bytes, [&](std::uint64_t offset, std::uint64_t size) {
    add_message(receive_call(peer, static_cast<std::byte*>(data) + offset, size));
  });
}

void Schedule::check_peer(int peer) const {
  if (peer < 0 || peer >= ranks_ || !is_peer_[static_cast<std::size_t>(peer)]) {
    fail(Status::internal, "a transfer between ranks {} and {}, which were not connected", rank_, peer);
  }
}

void Schedule::add_message(const Call& call) {
  bool sends = call.kind == Call::Kind::send;
  std::uint64_t number = (sends ? sent_ : received_)[static_cast<std::size_t>(call.peer)]++;
  int distance = sends ? call.peer - rank_ : rank_ - call.peer;
  if (distance < 0) distance += ranks_;
  Key key{number / messages_, static_cast<std::uint64_t>(distance) / distances_};
  messages_by_key_[key].push_back(call);
}

std::vector<Batch> Schedule::take() {
  std::vector<Batch> batches;
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    std::vector<Call>& calls = collectives_[group];
    for (std::size_t begin = 0; begin < calls.size(); begin += kMostCalls) {
      auto from = calls.begin() + static_cast<std::ptrdiff_t>(begin);
      auto to = from + static_cast<std::ptrdiff_t>(std::min(kMostCalls, calls.size() - begin));
      batches.push_back({group, {from, to}});
    }
    calls.clear();
  }
  for (auto& [key, calls] : messages_by_key_) batches.push_back({std::nullopt, std::move(calls)});
  messages_by_key_.clear();
  std::fill(sent_.begin(), sent_.end(), 0);
  std::fill(received_.begin(), received_.end(), 0);
  return batches;
}

}  // namespace slabload::nccl
