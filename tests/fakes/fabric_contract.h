// What every Fabric has to do, on whichever memory it moves bytes. A test program includes this once and
// gives it the rigs to put to the test (INSTANTIATE_TEST_SUITE_P).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "backend/control.h"
#include "backend/device.h"
#include "backend/fabric.h"
#include "fakes/random_case.h"
#include "fakes/reference.h"

namespace slabload::testing {

// A fabric with what it works on, made anew for each test by all ranks together.
struct Rig {
  std::unique_ptr<Control> control;
  std::unique_ptr<Device> device;
  std::unique_ptr<Fabric> fabric;
};

struct RigMaker {
  const char* name;
  std::function<Rig()> make;
};
inline void PrintTo(const RigMaker& maker, std::ostream* out) {
  *out << maker.name;
}

// Bytes that say what they are: no two messages of a test are alike.
inline std::string content(std::uint64_t key, std::uint64_t size) {
  std::string out(size, '\0');
  for (std::uint64_t i = 0; i < size; ++i) out[i] = static_cast<char>(mix64(key * 1000003 + i));
  return out;
}

// Memory of the device in pieces, each with what it holds before and what it is to hold after the transfers.
// What lies between them is to stay as it was.
class Pieces {
 public:
  Pieces(Device& device, Control& control)
      : device_(device),
        control_(control),
        memory_(device.allocate(kSize, "test")),
        staging_(device.allocate_staging(kSize, "test")) {}

  // The next piece. Its old content is there behind the next load().
  std::byte* add(const std::string& before, const std::string& after) {
    EXPECT_EQ(before.size(), after.size());
    append(std::string(kGap, kGapByte), std::string(kGap, kGapByte));
    std::size_t at = after_.size();
    append(before, after);
    return memory_->data() + at;
  }
  // One that is only sent.
  std::byte* add(const std::string& always) { return add(always, always); }
  // One that is overwritten.
  std::byte* add_target(const std::string& after) { return add(std::string(after.size(), '\x11'), after); }

  // Puts the copy of the old content of what was added since the last time into the device's queue.
  void load() {
    // What is added next lies on other pages: these are the copy's until it is done.
    std::string rest(kPage - after_.size() % kPage, kGapByte);
    append(rest, rest);
    device_.copy_in(staging_->data() + loaded_, memory_->data() + loaded_, after_.size() - loaded_);
    loaded_ = after_.size();
  }

  // Fails the test unless all pieces hold what they are to and nothing else has changed.
  void check(const std::string& what = "") {
    device_.copy_out(memory_->data(), staging_->data(), loaded_);
    Mark mark = device_.mark();
    wait_until(control_, [&] { return device_.passed(mark).has_value(); });
    const char* got = reinterpret_cast<const char*>(staging_->data());
    auto wrong = std::mismatch(got, got + loaded_, after_.data()).first - got;
    EXPECT_EQ(wrong, static_cast<std::ptrdiff_t>(loaded_)) << what << ": the place of the first wrong byte";
  }

 private:
  static constexpr std::size_t kSize = 16 << 20, kPage = 4096, kGap = 5;
  static constexpr char kGapByte = '\x77';

  void append(const std::string& before, const std::string& after) {
    if (after_.size() + before.size() > kSize) throw std::runtime_error("the test needs more memory");
    std::memcpy(staging_->data() + after_.size(), before.data(), before.size());
    after_ += after;
  }

  Device& device_;
  Control& control_;
  std::unique_ptr<DeviceMemory> memory_, staging_;
  std::string after_;
  std::size_t loaded_ = 0;
};

class FabricContract : public ::testing::TestWithParam<RigMaker> {
 protected:
  using Ticket = Fabric::Ticket;

  void SetUp() override {
    rig = GetParam().make();
    fabric = rig.fabric.get();
    rank = rig.control->rank();
    ranks = rig.control->ranks();
  }

  Pieces pieces() { return {*rig.device, *rig.control}; }
  std::vector<int> everyone() const {
    std::vector<int> out;
    for (int r = 0; r < ranks; ++r) out.push_back(r);
    return out;
  }
  std::vector<int> others() const {
    std::vector<int> out;
    for (int r = 0; r < ranks; ++r) {
      if (r != rank) out.push_back(r);
    }
    return out;
  }
  int next() const { return (rank + 1) % ranks; }
  int before() const { return (rank + ranks - 1) % ranks; }

  void wait(Ticket ticket) {
    std::optional<Span> span;
    wait_until(*rig.control, [&] { return (span = fabric->finished(ticket)).has_value(); });
    EXPECT_LE(span->begin_s, span->end_s);
  }
  void run() {
    Ticket ticket = fabric->start();
    fabric->progress();
    wait(ticket);
  }

  // Adds an all-gather of `want` in parts of `part` on a group in which this rank is member `member`.
  void gather(Pieces& memory, std::size_t group, std::uint64_t member, const std::string& want,
              std::uint64_t part) {
    std::string region(want.size(), '\x11');
    std::uint64_t begin = std::min<std::uint64_t>(want.size(), member * part);
    std::uint64_t end = std::min<std::uint64_t>(want.size(), (member + 1) * part);
    region.replace(begin, end - begin, want, begin, end - begin);
    fabric->all_gather(group, memory.add(region, want), want.size(), part);
  }
  // Adds a broadcast of `want` on a group, of which this rank is the root or not.
  void broadcast(Pieces& memory, std::size_t group, int root, bool is_root, const std::string& want) {
    fabric->broadcast(group, root, is_root ? memory.add(want) : memory.add_target(want), want.size());
  }
  // Adds a message if this rank is one of its two ends; none from a rank to itself.
  void message(Pieces& memory, int from, int to, const std::string& want) {
    if (from == to) return;
    if (rank == from) fabric->send(to, memory.add(want), want.size());
    if (rank == to) fabric->receive(from, memory.add_target(want), want.size());
  }

  Rig rig;
  Fabric* fabric = nullptr;
  int rank = 0, ranks = 1;
};

TEST_P(FabricContract, AllGathersInPlaceWithUnevenAndEmptyLastParts) {
  fabric->connect({everyone()}, {});
  auto n = static_cast<std::uint64_t>(ranks);
  struct Case {
    std::uint64_t bytes, part;
  };
  // Even, a short last part, most parts empty, one member with all, and a large one.
  for (Case c : {Case{n * 8, 8}, Case{n * 8 - 3, 8}, Case{n * 100 + 1, 101}, Case{5, 5}, Case{7, 4},
                 Case{1, 1000}, Case{n * 300000, 300000}, Case{n * 300000 - 17, 300000}}) {
    if (c.part * n < c.bytes) continue;
    Pieces memory = pieces();
    gather(memory, 0, static_cast<std::uint64_t>(rank), content(c.bytes, c.bytes), c.part);
    memory.load();
    run();
    memory.check(std::to_string(c.bytes) + " bytes in parts of " + std::to_string(c.part));
  }
}

TEST_P(FabricContract, BroadcastsFromEveryRoot) {
  fabric->connect({everyone()}, {});
  for (int root = 0; root < ranks; ++root) {
    Pieces memory = pieces();
    for (std::uint64_t size : {1u, 77u, 200000u}) {
      broadcast(memory, 0, root, rank == root, content(static_cast<std::uint64_t>(root) * 7 + size, size));
    }
    memory.load();
    run();
    memory.check("root " + std::to_string(root));
  }
}

// Rows and columns of a mesh, groups of one, groups that leave ranks alone, and the whole world, side by side
// in one set.
TEST_P(FabricContract, KeepsGroupsApart) {
  int columns = ranks % 2 == 0 ? 2 : ranks % 3 == 0 ? 3 : 1;
  std::vector<int> row, column, pair;
  for (int r = 0; r < ranks; ++r) {
    if (r / columns == rank / columns) row.push_back(r);
    if (r % columns == rank % columns) column.push_back(r);
    // The first and the last; all others are alone.
    bool ends = (rank == 0 || rank == ranks - 1) && (r == 0 || r == ranks - 1);
    if (r == rank || ends) pair.push_back(r);
  }
  std::vector<std::vector<int>> groups{row, column, {rank}, everyone(), pair};
  fabric->connect(groups, {});
  Pieces memory = pieces();
  constexpr std::uint64_t kPart = 24;
  auto member_part = [](std::size_t group, int member) {
    return content(group * 1000 + static_cast<std::uint64_t>(member), kPart);
  };
  for (std::size_t g = 0; g < groups.size(); ++g) {
    std::string want;
    for (int member : groups[g]) want += member_part(g, member);
    std::string uneven = want.substr(0, want.size() - 1);
    auto self = std::find(groups[g].begin(), groups[g].end(), rank) - groups[g].begin();
    gather(memory, g, static_cast<std::uint64_t>(self), want, kPart);
    gather(memory, g, static_cast<std::uint64_t>(self), uneven, kPart);
    int root = static_cast<int>(groups[g].size()) - 1;
    broadcast(memory, g, root, self == root,
              content(g * 777 + static_cast<std::uint64_t>(groups[g].back()), 50));
  }
  memory.load();
  run();
  memory.check();
}

// Neighbours in a ring, shifted by one in the second entry: no two ranks wait for each other's group.
TEST_P(FabricContract, GroupsThatCrossDoNotWaitForEachOther) {
  auto pair_of = [&](int shift) {
    std::vector<int> out;
    for (int r = 0; r < ranks; ++r) {
      if ((r + shift) % ranks / 2 == (rank + shift) % ranks / 2) out.push_back(r);
    }
    return out;
  };
  std::vector<std::vector<int>> groups{pair_of(0), pair_of(1)};
  fabric->connect(groups, {});
  Pieces memory = pieces();
  for (std::uint64_t i = 0; i < 6; ++i) {
    // Ranks issue on the two in different orders.
    std::size_t g = (i + static_cast<std::uint64_t>(rank)) % 2;
    std::uint64_t turn = i / 2;
    auto size = static_cast<int>(groups[g].size());
    int root = static_cast<int>(turn) % size;
    int root_rank = groups[g][static_cast<std::size_t>(root)];
    broadcast(memory, g, root, root_rank == rank,
              content((g * 100 + turn) * 100 + static_cast<std::uint64_t>(root_rank), 1000 + g));
  }
  memory.load();
  run();
  memory.check();
}

TEST_P(FabricContract, KeepsTheOrderOfCollectives) {
  fabric->connect({everyone(), everyone()}, {});
  Pieces memory = pieces();
  for (std::uint64_t i = 0; i < 700; ++i) {
    int root = static_cast<int>(i * 3 % static_cast<std::uint64_t>(ranks));
    broadcast(memory, i % 2, root, rank == root, content(i, 10 + i % 3));
  }
  memory.load();
  run();
  memory.check();
}

TEST_P(FabricContract, MessagesOfAPairArriveInTheirOrder) {
  fabric->connect({}, others());
  Pieces memory = pieces();
  // All of one size: only the order tells them apart. More than fit into one group of NCCL.
  constexpr std::uint64_t kCount = 300, kSize = 33;
  auto key = [&](int from, int to, std::uint64_t i) {
    return (static_cast<std::uint64_t>(from) * 64 + static_cast<std::uint64_t>(to)) * 1000 + i;
  };
  for (std::uint64_t i = 0; i < kCount; ++i) {
    for (int peer : others()) message(memory, peer, rank, content(key(peer, rank, i), kSize));
  }
  for (std::uint64_t i = 0; i < kCount; ++i) {
    for (int peer = ranks; peer-- > 0;) message(memory, rank, peer, content(key(rank, peer, i), kSize));
  }
  memory.load();
  run();
  memory.check();
}

// Random sizes between random pairs, some pairs far more often than others, with collectives among them; a
// thousand in a set, and several sets under way at once.
TEST_P(FabricContract, ManyTransfersOfAllKindsInSeveralSets) {
  std::vector<int> half;
  for (int r = 0; r < ranks; ++r) {
    if (r % 2 == rank % 2) half.push_back(r);
  }
  fabric->connect({everyone(), half}, others());
  Random random(5);  // the same on all ranks
  auto n = static_cast<std::uint64_t>(ranks);
  Pieces memory = pieces();
  std::vector<Ticket> tickets;
  for (std::uint64_t set = 0; set < 4; ++set) {
    for (std::uint64_t i = 0; i < 1000; ++i) {
      std::uint64_t key = set * 1000 + i;
      if (i % 250 == 50) gather(memory, 0, static_cast<std::uint64_t>(rank), content(key, n * 16), 16);
      if (i % 250 == 70) {
        int root = half.back();
        broadcast(memory, 1, static_cast<int>(half.size()) - 1, rank == root,
                  content(key * 64 + static_cast<std::uint64_t>(root), 40));
      }
      int from = static_cast<int>(random.below(random.one_in(2) ? n : 1));
      int to = static_cast<int>(random.below(n));
      std::uint64_t size = random.one_in(50) ? 20000 + random.below(60000) : 1 + random.below(500);
      message(memory, from, to, content(key, size));
    }
    memory.load();
    tickets.push_back(fabric->start());
    fabric->progress();
  }
  for (Ticket ticket : tickets) wait(ticket);
  memory.check();
}

TEST_P(FabricContract, AsManySetsUnderWayAsALoadHas) {
  fabric->connect({everyone()}, others());
  Pieces memory = pieces();
  std::vector<Ticket> tickets;
  for (std::uint64_t set = 0; set < 40; ++set) {
    // Up to 8 at once, in other numbers on each rank.
    std::uint64_t most = 1 + (static_cast<std::uint64_t>(rank) * 5 + set) % 8;
    while (tickets.size() >= most) {
      wait(tickets.front());
      tickets.erase(tickets.begin());
    }
    int root = static_cast<int>(set) % ranks;
    broadcast(memory, 0, root, rank == root, content(set, 300));
    message(memory, root, (root + 1) % ranks, content(set + 1000, 100));
    memory.load();
    tickets.push_back(fabric->start());
  }
  for (Ticket ticket : tickets) wait(ticket);
  memory.check();
}

// Every pair has another number of messages, some none.
TEST_P(FabricContract, UnevenNumbersOfMessagesFromAllToAll) {
  fabric->connect({}, others());
  Pieces memory = pieces();
  for (std::uint64_t i = 0; i < 400; ++i) {
    for (int from = 0; from < ranks; ++from) {
      for (int to = 0; to < ranks; ++to) {
        std::uint64_t pair = static_cast<std::uint64_t>(from) * 64 + static_cast<std::uint64_t>(to);
        if (i < pair * 37 % 400 / (1 + pair % 5)) message(memory, from, to, content(pair * 1000 + i, 20));
      }
    }
  }
  memory.load();
  run();
  memory.check();
}

// Both send before either receives: more than a system buffers for them.
TEST_P(FabricContract, LargeMessagesBothWaysDoNotWaitForEachOther) {
  fabric->connect({}, others());
  Pieces memory = pieces();
  constexpr std::uint64_t kSize = 4 << 20;
  auto mine = [](int sender) { return std::string(kSize, static_cast<char>('a' + sender)); };
  if (ranks > 1) {
    fabric->send(next(), memory.add(mine(rank)), kSize);
    fabric->receive(before(), memory.add_target(mine(before())), kSize);
  }
  memory.load();
  run();
  memory.check();
}

TEST_P(FabricContract, TransfersOfNothing) {
  fabric->connect({everyone()}, others());
  for (int i = 0; i < 3; ++i) run();  // an empty set
  std::vector<Ticket> tickets;
  for (int i = 0; i < 3; ++i) tickets.push_back(fabric->start());
  for (Ticket ticket : tickets) wait(ticket);

  Pieces memory = pieces();
  std::byte* byte = memory.add("z");
  fabric->broadcast(0, 0, byte, 0);
  fabric->all_gather(0, byte, 0, 1);
  fabric->all_gather(0, byte, 0, 0);
  if (ranks > 1) {
    fabric->receive(before(), byte, 0);
    fabric->send(next(), byte, 0);
  }
  memory.load();
  run();
  // And what follows is not mixed up with it.
  broadcast(memory, 0, 0, rank == 0, "after");
  memory.load();
  run();
  memory.check();
}

TEST_P(FabricContract, OnlySomeRanksTakePartInASet) {
  bool ends = ranks > 1 && (rank == 0 || rank == ranks - 1);
  fabric->connect({}, ends ? std::vector<int>{rank == 0 ? ranks - 1 : 0} : std::vector<int>{});
  Pieces memory = pieces();
  if (ends) message(memory, 0, ranks - 1, "message");
  memory.load();
  run();
  memory.check();
}

// start() sends what the copies put into the queue before it bring, not what was there when the transfer was
// named; and a copy that follows the end of a set finds what came in.
TEST_P(FabricContract, TransfersComeBehindTheCopiesBeforeThem) {
  fabric->connect({everyone()}, others());
  for (int round = 0; round < 5; ++round) {
    Pieces memory = pieces();
    auto key = static_cast<std::uint64_t>(round);
    // Large, so that it is still on its way.
    broadcast(memory, 0, ranks - 1, rank == ranks - 1, content(key, 400000));
    gather(memory, 0, static_cast<std::uint64_t>(rank),
           content(key + 50, static_cast<std::uint64_t>(ranks) * 70000), 70000);
    if (ranks > 1) {
      std::uint64_t to_next = key * 100 + static_cast<std::uint64_t>(rank);
      std::uint64_t from_before = key * 100 + static_cast<std::uint64_t>(before());
      fabric->send(next(), memory.add(content(to_next, 300000)), 300000);
      fabric->receive(before(), memory.add_target(content(from_before, 300000)), 300000);
    }
    memory.load();
    run();
    memory.check("round " + std::to_string(round));
  }
}

// A rank is told that its set is under way for as long as another one has not started its part, and isn't
// held up.
TEST_P(FabricContract, AnswersWhileOthersHaveNotStarted) {
  fabric->connect({everyone()}, others());
  Pieces memory = pieces();
  int late = ranks - 1;
  broadcast(memory, 0, late, rank == late, content(1, 100000));
  message(memory, late, 0, content(2, 77));
  memory.load();
  Ticket ticket = 0;
  if (rank != late) {
    ticket = fabric->start();
    for (int i = 0; i < 200; ++i) {
      fabric->progress();
      EXPECT_FALSE(fabric->finished(ticket).has_value());
    }
  }
  rig.control->barrier();
  if (rank == late) ticket = fabric->start();
  wait(ticket);
  memory.check();
}

TEST_P(FabricContract, SaysWhatItIs) {
  EXPECT_FALSE(fabric->description().empty());
}

}  // namespace slabload::testing
