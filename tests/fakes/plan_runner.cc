#include "fakes/plan_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>

#include "fakes/box_walk.h"
#include "fakes/reference.h"

namespace slabload::testing {
namespace {

// Bytes, and which of them have been written.
struct Memory {
  std::string bytes;
  std::string written;

  void reset(std::uint64_t size) {
    bytes.assign(size, '\xcd');
    written.assign(size, 0);
  }
  void check(std::uint64_t offset, std::uint64_t size) const {
    require(size <= bytes.size() && offset <= bytes.size() - size, "bytes {}+{} are outside a space of {}",
            offset, size, bytes.size());
  }
  void put(std::uint64_t offset, const std::string& data) {
    check(offset, data.size());
    require(written.find('\1', offset) >= offset + data.size(), "bytes {}+{} are written twice", offset,
            data.size());
    written.replace(offset, data.size(), data.size(), '\1');
    bytes.replace(offset, data.size(), data);
  }
  std::string get(std::uint64_t offset, std::uint64_t size) const {
    check(offset, size);
    require(written.find('\0', offset) >= offset + size, "bytes {}+{} are used before they are written",
            offset, size);
    return bytes.substr(offset, size);
  }
};

std::uint64_t volume(const Box& box) {
  std::uint64_t product = 1;
  for (std::uint64_t e : box.extent) product *= e;
  return product;
}

struct Message {
  std::uint32_t tensor;
  Box box;
  std::string bytes;
  const Memory* memory;  // where it was sent from; must not change until the round ends
  std::uint64_t offset;
};

struct Member {
  std::uint64_t rank;
  const FillItem* fill;
  std::string own;  // what this member brings
};

class Runner {
 public:
  Runner(const TensorIndex& index, const std::vector<LoadPlan>& plans)
      : index_(index), plans_(plans), memory_(plans.size()) {
    for (const TensorMeta& t : index.tensors) run_.reads.emplace_back(t.elements(), 0);
    run_.read_bytes.resize(plans.size());
    for (std::size_t r = 0; r < plans.size(); ++r) {
      memory_[r].shard.reset(plans[r].shard_bytes);
      memory_[r].keep.reset(plans[r].keep_bytes);
      require(plans[r].rounds_at_once == plans[0].rounds_at_once && plans[r].rounds_at_once >= 1 &&
                  plans[r].rounds_at_once <= 16,
              "slots");
      memory_[r].stage.resize(plans[r].rounds_at_once);
      require(plans[r].rounds.size() == plans[0].rounds.size(), "rank {} has another number of rounds", r);
    }
  }

  Run run() {
    std::size_t rounds = plans_[0].rounds.size();
    std::size_t slots = plans_[0].rounds_at_once;
    for (std::size_t r = 0; r < rounds; ++r) {
      if (r >= slots) end_transfers(r - slots);
      read(r);
      begin_transfers(r);
    }
    for (std::size_t r = rounds - std::min(rounds, slots); r < rounds; ++r) end_transfers(r);
    for (Ranks& rank : memory_) run_.shards.push_back(std::move(rank.shard.bytes));
    return std::move(run_);
  }

 private:
  struct Ranks {
    Memory shard, keep;
    std::vector<Memory> stage;
  };
  // What is under way between the ranks in one round.
  struct Transfers {
    std::map<std::pair<std::uint64_t, std::uint64_t>, std::deque<Message>> messages;
    std::map<std::pair<std::uint32_t, std::vector<int>>, std::deque<std::vector<Member>>> collectives;
    std::map<std::pair<std::uint32_t, std::uint64_t>, std::size_t> joined;
  };

  Memory& memory(std::size_t rank, Space space, std::size_t round) {
    Ranks& of = memory_[rank];
    if (space == Space::shard) return of.shard;
    return space == Space::keep ? of.keep : of.stage[round % plans_[rank].rounds_at_once];
  }
  std::uint64_t size(std::size_t rank, std::uint32_t tensor) const {
    return dtype_size(plans_[rank].dtypes.at(tensor));
  }

  void read(std::size_t r) {
    const Round& first = plans_[0].rounds[r];
    for (std::size_t rank = 0; rank < plans_.size(); ++rank) {
      const Round& round = plans_[rank].rounds[r];
      require(round.stage_bytes <= plans_[rank].stage_bytes,
              "round {} of rank {} has more staging than there is", r, rank);
      require(round.communicates == first.communicates, "only some ranks communicate in round {}", r);
      require(round.communicates || round.fills.empty(), "transfers in a round without any");
      require(round.steps.size() == first.steps.size(), "rank {} has other steps in round {}", rank, r);
      for (std::size_t s = 0; s < first.steps.size(); ++s) {
        require(
            round.steps[s].tensor == first.steps[s].tensor && round.steps[s].calls == first.steps[s].calls,
            "rank {} has other steps in round {}", rank, r);
      }
      memory(rank, Space::stage, r).reset(round.stage_bytes);
      std::vector<std::uint32_t> calls(first.steps.size());
      std::uint32_t last = 0;
      const ReadItem* before = nullptr;
      for (const ReadItem& item : round.reads) {
        if (item.joined) {
          require(before != nullptr && byte_in_file(*before, true) == byte_in_file(item, false) &&
                      index_.tensors[before->tensor].file == index_.tensors[item.tensor].file &&
                      before->to.space == item.to.space &&
                      before->to.offset + volume(before->box) * size(rank, before->tensor) == item.to.offset,
                  "a read joined to one that it does not follow");
        }
        before = &item;
        require(item.step >= last && first.steps.at(item.step).tensor == item.tensor,
                "a read in no order of steps");
        last = item.step;
        require(++calls[item.step] <= first.steps[item.step].calls, "more reads than the step has calls");
        read_item(rank, r, item);
      }
    }
  }

  // Where a read begins or ends in the file, if it is one stretch of it.
  std::uint64_t byte_in_file(const ReadItem& item, bool end) const {
    const TensorMeta& tensor = index_.tensors.at(item.tensor);
    require(tensor.storage == StorageKind::contiguous && !tensor.big_endian, "joined reads of no plain bytes");
    Box whole{Dims(tensor.shape.ndim(), 0), tensor.shape.lengths()};
    std::uint64_t first = 0;
    std::uint64_t count = 0;
    each(item.box, [&](const std::vector<std::uint64_t>& at) {
      std::uint64_t flat = position(at, whole);
      if (count == 0) first = flat;
      require(flat == first + count, "a joined read of several stretches");
      ++count;
    });
    return tensor.offset + (first + (end ? count : 0)) * dtype_size(tensor.dtype);
  }

  void read_item(std::size_t rank, std::size_t r, const ReadItem& item) {
    const TensorMeta& tensor = index_.tensors.at(item.tensor);
    Box whole{Dims(tensor.shape.ndim(), 0), tensor.shape.lengths()};
    std::uint64_t final_size = size(rank, item.tensor);
    std::uint64_t stored_size = dtype_size(tensor.dtype);
    std::string data;
    each(item.box, [&](const std::vector<std::uint64_t>& at) {
      std::uint64_t flat = position(at, whole);
      ++run_.reads[item.tensor][flat];
      append_bits(data, pattern_bits(item.tensor, flat), final_size);
    });
    require(!data.empty() && std::max(final_size, stored_size) * volume(item.box) < (std::uint64_t{1} << 30),
            "size of a read");
    if (tensor.storage != StorageKind::fill) run_.read_bytes[rank] += stored_size * volume(item.box);
    memory(rank, item.to.space, r).put(item.to.offset, data);
  }

  void copy(std::size_t rank, std::size_t r, const CopyItem& item) {
    std::uint64_t element = size(rank, item.tensor);
    const Memory& from = memory(rank, item.from.space, r);
    Memory& to = memory(rank, item.to.space, r);
    each(item.box, [&](const std::vector<std::uint64_t>& at) {
      std::string value = from.get(item.from.offset + position(at, item.from_box) * element, element);
      to.put(item.to.offset + position(at, item.to_box) * element, value);
    });
  }

  void begin_transfers(std::size_t r) {
    Transfers& transfers = under_way_.emplace_back();
    for (std::size_t rank = 0; rank < plans_.size(); ++rank) {
      const Round& round = plans_[rank].rounds[r];
      for (const CopyItem& item : round.packs) copy(rank, r, item);
      for (const FillItem& fill : round.fills) {
        require(fill.bytes > 0 && fill.bytes < (std::uint64_t{1} << 30), "size of a transfer");
        const Memory& at = memory(rank, fill.at.space, r);
        if (fill.kind == FillItem::Kind::send) {
          require(fill.peer != rank && fill.peer < plans_.size(), "a message to nobody");
          transfers.messages[{rank, fill.peer}].push_back(
              {fill.tensor, fill.box, at.get(fill.at.offset, fill.bytes), &at, fill.at.offset});
        } else if (fill.kind != FillItem::Kind::receive) {
          join(transfers, rank, r, fill);
        }
      }
    }
  }

  // A collective begins: what the member brings is taken now.
  void join(Transfers& transfers, std::size_t rank, std::size_t r, const FillItem& fill) {
    const std::vector<int> group = plans_[rank].groups.at(fill.group).ranks();
    auto self = static_cast<std::uint64_t>(std::find(group.begin(), group.end(), static_cast<int>(rank)) -
                                           group.begin());
    require(self < group.size(), "rank {} is not in its group", rank);
    const Memory& at = memory(rank, fill.at.space, r);
    Member member{rank, &fill, ""};
    if (fill.kind == FillItem::Kind::broadcast) {
      require(fill.peer < group.size(), "a broadcast without a root");
      if (self == fill.peer) member.own = at.get(fill.at.offset, fill.bytes);
    } else {
      std::uint64_t begin = std::min(fill.bytes, self * fill.part);
      member.own = at.get(fill.at.offset + begin, std::min(fill.bytes, (self + 1) * fill.part) - begin);
    }
    // The n-th collective of each member of a group belong together.
    std::deque<std::vector<Member>>& queue = transfers.collectives[{fill.group, group}];
    std::size_t number = transfers.joined[{fill.group, rank}]++;
    if (queue.size() <= number) queue.resize(number + 1);
    queue[number].push_back(std::move(member));
  }

  void end_transfers(std::size_t r) {
    Transfers transfers = std::move(under_way_.front());
    under_way_.pop_front();
    for (std::size_t rank = 0; rank < plans_.size(); ++rank) {
      for (const FillItem& fill : plans_[rank].rounds[r].fills) {
        if (fill.kind != FillItem::Kind::receive) continue;
        auto& queue = transfers.messages[{fill.peer, rank}];
        require(!queue.empty(), "rank {} waits for a message of rank {} that never comes", rank, fill.peer);
        Message message = std::move(queue.front());
        queue.pop_front();
        require(
            message.tensor == fill.tensor && message.bytes.size() == fill.bytes && message.box == fill.box,
            "rank {} takes a message of rank {} for another", rank, fill.peer);
        require(message.memory->bytes.compare(message.offset, fill.bytes, message.bytes) == 0,
                "changed while it was sent");
        memory(rank, fill.at.space, r).put(fill.at.offset, message.bytes);
      }
    }
    for (auto& [pair, queue] : transfers.messages)
      require(queue.empty(), "nobody takes a message of rank {}", pair.first);
    for (auto& [key, queue] : transfers.collectives) {
      for (std::vector<Member>& members : queue) end_collective(key.second.size(), members, r);
    }
    for (std::size_t rank = 0; rank < plans_.size(); ++rank) {
      for (const CopyItem& item : plans_[rank].rounds[r].unpacks) copy(rank, r, item);
    }
  }

  void end_collective(std::size_t group_size, std::vector<Member>& members, std::size_t r) {
    require(members.size() == group_size, "{} of {} members take part", members.size(), group_size);
    const FillItem& first = *members[0].fill;
    std::string all;
    for (const Member& member : members) {  // in rank order, which is the groups'
      const FillItem& fill = *member.fill;
      require(fill.kind == first.kind && fill.tensor == first.tensor && fill.bytes == first.bytes &&
                  fill.part == first.part && fill.peer == first.peer,
              "the members of a group disagree");
      all += member.own;
    }
    require(all.size() == first.bytes, "a collective of {} bytes brings {}", first.bytes, all.size());
    std::uint64_t begin = 0;
    for (const Member& member : members) {
      Memory& at = memory(member.rank, member.fill->at.space, r);
      std::uint64_t end = begin + member.own.size();
      if (first.kind == FillItem::Kind::broadcast) {
        if (member.own.empty()) at.put(member.fill->at.offset, all);
        continue;
      }
      at.put(member.fill->at.offset, all.substr(0, begin));
      at.put(member.fill->at.offset + end, all.substr(end));
      begin = end;
    }
  }

  const TensorIndex& index_;
  const std::vector<LoadPlan>& plans_;
  std::vector<Ranks> memory_;
  std::deque<Transfers> under_way_;
  Run run_;
};

}  // namespace

std::uint64_t pattern_bits(std::uint64_t t, std::uint64_t i) {
  return mix64((t << 40) + i);
}

Run run_plans(const TensorIndex& index, const std::vector<LoadPlan>& plans) {
  return Runner(index, plans).run();
}

}  // namespace slabload::testing
