#include "operation.h"

#include <algorithm>
#include <cstring>

#include "names.h"
#include "peer_memory.h"

namespace fakenccl {
namespace {

bool overlap(const std::byte* a, std::uint64_t a_bytes, const std::byte* b, std::uint64_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}

unsigned long long number(std::uint64_t value) {
  return value;
}

}  // namespace

Operation::Operation(Communicator& communicator, const Signature& signature, int peer, const void* send,
                     void* receive)
    : communicator_(communicator),
      signature_(signature),
      peer_(peer),
      send_(send),
      receive_(receive),
      bytes_(signature.count * size_of(signature.type)) {
  for (int rank = 0; rank < communicator_.ranks() && bytes_ > 0; ++rank) {
    if (receives_from(rank)) to_copy_.push_back(rank);
    if (is_read_by(rank)) to_serve_.push_back(rank);
  }
  if (bytes_ == 0 || !is_collective() || !is_read_by(communicator_.rank())) return;
  const auto* from = static_cast<const std::byte*>(send_);
  const auto* to = static_cast<const std::byte*>(receive_);
  const std::byte* right = place_for(communicator_.rank());
  const std::uint64_t parts =
      signature_.kind == Kind::all_gather ? static_cast<std::uint64_t>(communicator_.ranks()) : 1;
  if (overlap(from, bytes_, to, bytes_ * parts) && from != right)
    fakecuda_violation(
        "%s: in place, rank %d must send from %lld bytes behind the place it receives at, not %lld",
        text_of(signature_).c_str(), communicator_.rank(), static_cast<long long>(right - to),
        static_cast<long long>(from - to));
}

bool Operation::receives_from(int rank) const {
  switch (signature_.kind) {
    case Kind::all_gather:
      return true;
    case Kind::broadcast:
      return rank == signature_.root;
    case Kind::receive:
      return rank == peer_;
    case Kind::send:
      return false;
  }
  return false;
}

bool Operation::is_read_by(int rank) const {
  switch (signature_.kind) {
    case Kind::all_gather:
      return true;
    case Kind::broadcast:
      return signature_.root == communicator_.rank();
    case Kind::send:
      return rank == peer_;
    case Kind::receive:
      return false;
  }
  return false;
}

std::vector<FakeAccess> Operation::accesses() const {
  if (bytes_ == 0) return {};
  std::vector<FakeAccess> all;
  const bool in_place = is_collective() && send_ == place_for(communicator_.rank());
  const std::uint64_t parts =
      signature_.kind == Kind::all_gather ? static_cast<std::uint64_t>(communicator_.ranks()) : 1;
  const bool reads = is_read_by(signature_.kind == Kind::send ? peer_ : communicator_.rank());
  const bool only_reads =
      signature_.kind == Kind::send || (signature_.kind == Kind::broadcast && reads && in_place);
  if (reads && (only_reads || !in_place)) all.push_back({send_, bytes_, 0});
  if (!only_reads) all.push_back({receive_, bytes_ * parts, 1});
  return all;
}

PairSides& Operation::pair() const {
  const int here = communicator_.rank();
  const bool sending = signature_.kind == Kind::send;
  return communicator_.shared().pair(sending ? here : peer_, sending ? peer_ : here, sequence_);
}

Side& Operation::mine() const {
  if (is_collective()) return communicator_.shared().collective(communicator_.rank(), sequence_);
  return signature_.kind == Kind::send ? pair().send : pair().receive;
}

Side& Operation::theirs(int rank) const {
  if (is_collective()) return communicator_.shared().collective(rank, sequence_);
  return signature_.kind == Kind::send ? pair().receive : pair().send;
}

void Operation::claim_sequence() {
  std::uint64_t done = 0;
  if (is_collective()) {
    sequence_ = communicator_.next_collective++;
    done = sequence_;
    for (int rank = 0; rank < communicator_.ranks(); ++rank)
      done = std::min(done, communicator_.shared().rank(rank).ended.load());
  } else {
    const auto peer = static_cast<std::size_t>(peer_);
    sequence_ =
        (signature_.kind == Kind::send ? communicator_.next_send : communicator_.next_receive)[peer]++;
    done = pair().receive.read.load();
  }
  if (sequence_ >= done + ring_size)
    fakecuda_violation("%s: more than %llu operations of a communicator are pending",
                       text_of(signature_).c_str(), number(ring_size));
}

void Operation::issue() {
  claim_sequence();
  Side& own = mine();
  own.signature = signature_;
  own.issued.store(sequence_ + 1);
  // Of two ranks the one that stores later sees the other's, so every pair is compared.
  if (is_collective()) {
    communicator_.own().issued.store(sequence_ + 1);
    for (int rank = 0; rank < communicator_.ranks(); ++rank) compare_with(rank);
  } else {
    compare_with(peer_);
  }
  communicator_.note_progress();
}

void Operation::compare_with(int rank) const {
  const Side& other = theirs(rank);
  if (!has(other.issued)) return;
  const Signature& a = signature_;
  const Signature& b = other.signature;
  if (a.count == b.count && a.type == b.type && a.root == b.root && (!is_collective() || a.kind == b.kind))
    return;
  fakecuda_violation("%s don't match: %s issued %s, %s issued %s", sequence_text().c_str(),
                     communicator_.rank_text(communicator_.rank()).c_str(), text_of(a).c_str(),
                     communicator_.rank_text(rank).c_str(), text_of(b).c_str());
}

std::string Operation::sequence_text() const {
  if (is_collective())
    return text("collectives #%llu of %s", number(sequence_), communicator_.name().c_str());
  const bool sending = signature_.kind == Kind::send;
  return text("transfers #%llu from rank %d to rank %d of %s", number(sequence_),
              sending ? communicator_.rank() : peer_, sending ? peer_ : communicator_.rank(),
              communicator_.name().c_str());
}

void Operation::start() {
  Side& own = mine();
  if (!to_serve_.empty() && fakecuda_locate(send_, bytes_, &own.descriptor, &own.offset) != 0)
    fakecuda_violation("%s: its memory was freed while it was pending", text_of(signature_).c_str());
  own.started.store(sequence_ + 1);
  if (is_collective()) communicator_.own().started.store(sequence_ + 1);
  communicator_.note_progress();
}

std::byte* Operation::place_for(int rank) const {
  const std::uint64_t index = signature_.kind == Kind::all_gather ? static_cast<std::uint64_t>(rank) : 0;
  return static_cast<std::byte*>(receive_) + index * bytes_;
}

bool Operation::copy_from(int rank) {
  const Side& other = theirs(rank);
  if (!has(other.started)) return false;
  const RankBlock& block = communicator_.shared().rank(rank);
  std::byte* place = place_for(rank);
  if (rank == communicator_.rank() && place == send_) return true;
  auto* to = static_cast<std::byte*>(fakecuda_alias(place, bytes_));
  if (!to) fakecuda_violation("%s: its memory was freed while it was pending", text_of(signature_).c_str());
  // What an aborted rank still shows may have been freed, so its data counts only if it was there before and
  // after.
  return block.presence.load() == Presence::joined &&
         read_peer(block.pid, other.descriptor, other.offset, to, bytes_) &&
         block.presence.load() == Presence::joined;
}

bool Operation::advance() {
  const std::size_t before = to_copy_.size() + to_serve_.size();
  std::erase_if(to_copy_, [this](int rank) { return copy_from(rank); });
  if (to_copy_.empty() && !has(mine().read)) mine().read.store(sequence_ + 1);
  std::erase_if(to_serve_, [this](int rank) { return has(theirs(rank).read); });
  if (to_copy_.size() + to_serve_.size() != before) communicator_.note_progress();
  return ended();
}

void Operation::give_up() {
  constexpr int rubbish = 0xDB;
  for (const int rank : to_copy_) {
    std::byte* place = place_for(rank);
    void* to = rank == communicator_.rank() && place == send_ ? nullptr : fakecuda_alias(place, bytes_);
    if (to) std::memset(to, rubbish, bytes_);
  }
}

void Operation::finish() {
  if (is_collective()) communicator_.own().ended.store(sequence_ + 1);
  const auto others = static_cast<std::uint64_t>(communicator_.ranks() - 1);
  switch (signature_.kind) {
    case Kind::all_gather:
      return fakecuda_count("nccl_allgather", others * bytes_);
    case Kind::broadcast:
      return fakecuda_count("nccl_broadcast", signature_.root == communicator_.rank() ? 0 : bytes_);
    case Kind::send:
      return fakecuda_count("nccl_send", bytes_);
    case Kind::receive:
      return fakecuda_count("nccl_recv", bytes_);
  }
}

std::string Operation::waits_for() const {
  std::string all = text_of(signature_) + " (" + sequence_text() + ")";
  for (const int rank : to_copy_)
    all += text(" for rank %d, %s", rank,
                has(theirs(rank).issued) ? "whose stream has not come to it" : "which has not issued it");
  if (to_copy_.empty())
    for (const int rank : to_serve_)
      all += text(" for rank %d, %s", rank,
                  has(theirs(rank).started)  ? "which has not taken the data yet"
                  : has(theirs(rank).issued) ? "whose stream has not come to it"
                                             : "which has not issued it");
  return all;
}

}  // namespace fakenccl
