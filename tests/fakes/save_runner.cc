#include "fakes/save_runner.h"

#include <fmt/format.h>

#include <deque>
#include <map>

#include "fakes/box_walk.h"

namespace slabload::testing {
namespace {

// The staging of one round of one rank.
struct Stage {
  std::string bytes;
  std::vector<bool> there;
  explicit Stage(std::uint64_t size) : bytes(size, '\xee'), there(size, false) {}
};

class Saves {
 public:
  Saves(const TensorIndex& target, const std::vector<SavePlan>& plans, const std::vector<std::string>& shards)
      : target_(target), plans_(plans), shards_(shards) {
    for (const TensorMeta& t : target.tensors) {
      files_.emplace_back(t.bytes(), '\0');
      written_.emplace_back(t.elements(), false);
    }
  }

  std::vector<std::string> run() {
    for (std::size_t r = 0; r < plans_[0].load.rounds.size(); ++r) round(r);
    for (std::size_t t = 0; t < written_.size(); ++t) {
      for (bool written : written_[t])
        require(written, "an element of {} is not written", target_.tensors[t].name);
    }
    return files_;
  }

 private:
  const Round& of(std::size_t rank, std::size_t r) const { return plans_[rank].load.rounds.at(r); }
  std::uint64_t size(std::uint32_t t) const { return dtype_size(target_.tensors.at(t).dtype); }

  void round(std::size_t r) {
    stages_.clear();
    std::map<std::pair<std::uint64_t, std::uint64_t>, std::deque<std::pair<const FillItem*, std::string>>> sent;
    for (std::size_t rank = 0; rank < plans_.size(); ++rank) {
      require(plans_[rank].load.rounds.size() == plans_[0].load.rounds.size(), "rounds differ");
      require(of(rank, r).steps.size() == of(0, r).steps.size() && of(rank, r).communicates == of(0, r).communicates,
              "the outline of round {} differs", r);
      require(of(rank, r).stage_bytes <= plans_[rank].load.stage_bytes, "more staging than there is");
      stages_.emplace_back(of(rank, r).stage_bytes);
      for (const CopyItem& copy : of(rank, r).packs) {
        require(copy.from.space == Space::shard && copy.to.space == Space::stage, "a pack of no shard");
        move(rank, copy);
      }
    }
    for (std::size_t rank = 0; rank < plans_.size(); ++rank) {
      for (const FillItem& fill : of(rank, r).fills) {
        require(of(rank, r).communicates, "a transfer in a round without any");
        require(fill.bytes > 0 && fill.bytes < kItemLimit && fill.bytes == fill.box.elements() * size(fill.tensor),
                "the size of a message");
        if (fill.kind != FillItem::Kind::send) continue;
        require(fill.peer != rank && fill.peer < plans_.size(), "a message to nobody");
        sent[{rank, fill.peer}].push_back({&fill, get(rank, fill.at, fill.bytes)});
      }
    }
    for (std::size_t rank = 0; rank < plans_.size(); ++rank) {
      for (const FillItem& fill : of(rank, r).fills) {
        if (fill.kind != FillItem::Kind::receive) continue;
        auto& waiting = sent[{fill.peer, rank}];
        require(!waiting.empty(), "a receive without a message");
        auto [what, bytes] = waiting.front();
        waiting.pop_front();
        require(what->tensor == fill.tensor && what->box == fill.box && what->bytes == fill.bytes,
                "a message is not what is expected");
        put(rank, fill.at, bytes);
      }
    }
    for (const auto& [pair, waiting] : sent) require(waiting.empty(), "a message that nobody takes");
    for (std::size_t rank = 0; rank < plans_.size(); ++rank) {
      for (const CopyItem& copy : of(rank, r).unpacks) move(rank, copy);
      std::vector<std::uint32_t> calls(of(rank, r).steps.size());
      const ReadItem* before = nullptr;
      for (const ReadItem& item : of(rank, r).reads) {
        const ReadStep& step = of(0, r).steps.at(item.step);
        require(step.tensor == item.tensor && ++calls[item.step] <= step.calls, "a write outside its step");
        require(before == nullptr || before->step <= item.step, "writes in no order");
        before = &item;
        write(rank, item);
      }
    }
  }

  std::string get(std::size_t rank, const Place& place, std::uint64_t bytes) const {
    const std::string& space = place.space == Space::shard ? shards_[rank] : stages_[rank].bytes;
    require(bytes <= space.size() && place.offset <= space.size() - bytes, "outside a space");
    for (std::uint64_t i = 0; place.space == Space::stage && i < bytes; ++i)
      require(stages_[rank].there[place.offset + i], "staging is used before it is filled");
    return space.substr(place.offset, bytes);
  }

  void put(std::size_t rank, const Place& place, const std::string& bytes) {
    require(place.space == Space::stage, "a save changes a shard");
    Stage& stage = stages_[rank];
    require(bytes.size() <= stage.bytes.size() && place.offset <= stage.bytes.size() - bytes.size(), "outside the staging");
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      require(!stage.there[place.offset + i], "staging is filled twice");
      stage.there[place.offset + i] = true;
    }
    stage.bytes.replace(place.offset, bytes.size(), bytes);
  }

  void move(std::size_t rank, const CopyItem& copy) {
    const std::uint64_t element = size(copy.tensor);
    each(copy.box, [&](const std::vector<std::uint64_t>& at) {
      put(rank, {copy.to.space, copy.to.offset + position(at, copy.to_box) * element},
          get(rank, {copy.from.space, copy.from.offset + position(at, copy.from_box) * element}, element));
    });
  }

  void write(std::size_t rank, const ReadItem& item) {
    const TensorMeta& tensor = target_.tensors.at(item.tensor);
    const std::uint64_t element = size(item.tensor);
    require(item.box.elements() > 0 && item.box.elements() * element < kItemLimit, "the size of a write");
    const std::string bytes = get(rank, item.to, item.box.elements() * element);
    std::uint64_t from = 0;
    each(item.box, [&](const std::vector<std::uint64_t>& at) {
      const std::uint64_t number = position(at, Box{Dims(at.size(), 0), tensor.shape.lengths()});
      require(!written_[item.tensor][number], "an element of {} is written twice", tensor.name);
      written_[item.tensor][number] = true;
      files_[item.tensor].replace(number * element, element, bytes, from, element);
      from += element;
    });
  }

  const TensorIndex& target_;
  const std::vector<SavePlan>& plans_;
  const std::vector<std::string>& shards_;
  std::vector<Stage> stages_;
  std::vector<std::string> files_;
  std::vector<std::vector<bool>> written_;
};

}  // namespace

std::vector<std::string> run_saves(const TensorIndex& target, const std::vector<SavePlan>& plans,
                                   const std::vector<std::string>& shards) {
  return Saves(target, plans, shards).run();
}

}  // namespace slabload::testing
