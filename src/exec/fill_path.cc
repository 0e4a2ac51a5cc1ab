#include "exec/fill_path.h"

#include <algorithm>
#include <set>

#include "base/narrow.h"

namespace slabload {
namespace {

// What a round's transfers are named after.
std::uint32_t first_tensor(const Round& round) {
  return round.fills.empty() ? kNoTensor : round.fills.front().tensor;
}

}  // namespace

void FillPath::connect() {
  std::set<int> peers;
  for (const Round& round : run_.plan.rounds) {
    for (const FillItem& fill : round.fills) {
      if (fill.kind == FillItem::Kind::send || fill.kind == FillItem::Kind::receive)
        peers.insert(narrow<int>(fill.peer));
    }
  }
  std::vector<std::vector<int>> groups;
  for (const RankGroup& group : run_.plan.groups) groups.push_back(group.ranks());
  run_.parts.fabric.connect(groups, {peers.begin(), peers.end()});
}

void FillPath::start(const Round& round, std::size_t number) {
  if (broken_) return;
  OpenRound open{&round, number, {}};
  try {
    copy(round.packs, number);
    if (round.communicates) {
      for (const FillItem& fill : round.fills) {
        if (fill.kind != FillItem::Kind::send) run_.prepare(run_.at(fill.at, number, fill.tensor), fill.bytes);
      }
      ScopedTimer timer(run_.stats.fill_s);
      issue(round, number);
      open.ticket = run_.parts.fabric.start();
    }
  } catch (const Error& error) {
    break_off(run_.about(error, first_tensor(round)));
    return;
  }
  open_.push_back(open);
}

void FillPath::issue(const Round& round, std::size_t number) {
  Fabric& fabric = run_.parts.fabric;
  // Receives first: a message that finds its receive posted needs no buffer in between.
  for (const FillItem& fill : round.fills) {
    if (fill.kind == FillItem::Kind::receive)
      fabric.receive(narrow<int>(fill.peer), run_.at(fill.at, number, fill.tensor), fill.bytes);
  }
  for (const FillItem& fill : round.fills) {
    std::byte* data = run_.at(fill.at, number, fill.tensor);
    switch (fill.kind) {
      case FillItem::Kind::receive:
        break;
      case FillItem::Kind::send:
        fabric.send(narrow<int>(fill.peer), data, fill.bytes);
        break;
      case FillItem::Kind::all_gather:
        fabric.all_gather(fill.group, data, fill.bytes, fill.part);
        break;
      case FillItem::Kind::broadcast:
        fabric.broadcast(fill.group, narrow<int>(fill.peer), data, fill.bytes);
        break;
    }
  }
}

void FillPath::finish_oldest() {
  OpenRound open = open_.front();
  open_.pop_front();
  if (broken_) return;
  try {
    if (open.ticket) wait_for(open);
    copy(open.round->unpacks, open.number);
  } catch (const Error& error) {
    break_off(run_.about(error, first_tensor(*open.round)));
  }
}

void FillPath::wait_for(const OpenRound& open) {
  const Round& round = *open.round;
  const std::uint32_t first = first_tensor(round);
  run_.parts.monitor.waiting("fill", first == kNoTensor ? nullptr : &run_.tensor(first).name);
  std::optional<Span> span;
  {
    ScopedTimer timer(run_.stats.fill_s);
    run_.wait([&] {
      span = run_.parts.fabric.finished(*open.ticket);
      return span.has_value();
    });
  }
  std::uint64_t bytes = 0;
  for (const FillItem& fill : round.fills) bytes += received_bytes(run_.plan, fill);
  run_.stats.fill_bytes += bytes;
  run_.timeline.add(Phase::fill, first, span->begin_s, span->end_s, bytes);
  run_.advance(bytes);
}

void FillPath::finish_all() {
  while (!open_.empty()) finish_oldest();
}

void FillPath::end() {
  if (!broken_ && !run_.parts.fabric.abort()) finish_all();
  open_.clear();
}

void FillPath::break_off(const Error& cause) {
  if (broken_) return;
  if (!run_.parts.fabric.abort()) run_.leave(cause);
  broken_ = true;
  // A transfer may break because another rank gave up first: then that rank's error is the one to tell.
  if (cause.second_hand() || run_.parts.control.alarmed()) return;
  if (run_.in_lockstep) run_.leave(cause);
  failure_ = cause;
  run_.parts.control.alarm(cause);
}

void FillPath::copy(const std::vector<CopyItem>& copies, std::size_t number) {
  const bool host = run_.parts.device.host_accessible();
  for (const CopyItem& copy : copies) {
    const std::uint32_t size = dtype_size(run_.plan.dtypes[copy.tensor]);
    const std::uint64_t bytes = copy.box.elements() * size;
    std::byte* to = run_.at(copy.to, number, copy.tensor);
    if (host) {
      Dims first = copy.box.start;
      for (std::size_t d = 0; d < first.size(); ++d) first[d] -= copy.to_box.start[d];
      Shape target(copy.to_box.extent);
      if (runs_of(target, {first, copy.box.extent}).count == 1)
        run_.prepare(to + flat_index(target, first) * size, bytes);
    }
    PhaseTimer timer(run_, Phase::copy, run_.stats.copy_s, copy.tensor, bytes);
    run_.parts.device.copy_box(size, copy.box, run_.at(copy.from, number, copy.tensor), copy.from_box, to, copy.to_box);
    run_.stats.copy_bytes += bytes;
  }
}

}  // namespace slabload
