// All ranks' batches side by side: do the ends of every call meet, in whichever order NCCL gets to them?
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>

#include "backend/nccl/schedule.h"
#include "base/error.h"
#include "fakes/random_case.h"

namespace slabload::nccl {
namespace {

using slabload::testing::Random;
using Kind = Call::Kind;

constexpr std::uint64_t kMiB = 1 << 20;

// Never touched: an address to compute with.
std::byte* address(std::uint64_t offset) {
  return reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40) + offset;
}

// A message of the pair (from, to); `id` is its place in memory, so that both ends can be told to hold the
// same one.
struct Message {
  int from, to;
  std::uint64_t bytes;
};

// Messages of all ranks, in the order in which every rank issues its own.
struct Traffic {
  int ranks;
  std::vector<Message> messages;
};

std::vector<std::set<int>> peers_of(const Traffic& traffic) {
  std::vector<std::set<int>> peers(static_cast<std::size_t>(traffic.ranks));
  for (const Message& message : traffic.messages) {
    peers[static_cast<std::size_t>(message.from)].insert(message.to);
    peers[static_cast<std::size_t>(message.to)].insert(message.from);
  }
  return peers;
}

// What happens on a rank's stream: a call is named by what both its ends say about it.
using Program = std::vector<Batch>;

std::vector<Program> programs_of(const Traffic& traffic, std::size_t* largest_peer_count = nullptr) {
  auto peers = peers_of(traffic);
  std::size_t most = 0;
  for (const auto& set : peers) most = std::max(most, set.size());
  if (largest_peer_count != nullptr) *largest_peer_count = most;
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < traffic.ranks; ++rank) {
    const auto& mine = peers[static_cast<std::size_t>(rank)];
    schedules.emplace_back(rank, traffic.ranks, std::vector<int>(mine.begin(), mine.end()),
                           static_cast<int>(most), std::vector<Seat>{});
  }
  std::uint64_t place = 0;
  for (const Message& message : traffic.messages) {
    schedules[static_cast<std::size_t>(message.from)].send(message.to, address(place), message.bytes);
    schedules[static_cast<std::size_t>(message.to)].receive(message.from, address(place), message.bytes);
    place += message.bytes;
  }
  std::vector<Program> programs;
  for (Schedule& schedule : schedules) programs.push_back(schedule.take());
  return programs;
}

// Runs the programs as NCCL would: a rank's next batch begins when its last has ended, and a batch ends when
// each of its messages has met the next message of that pair in the partner's batch under way. Returns all
// messages in the order they met per pair, or fails the test if everything stands still.
void run(const std::vector<Program>& programs, const Traffic& traffic) {
  using Pair = std::pair<int, int>;
  std::map<Pair, std::vector<Call>> sent, received;  // ends of calls, in the order of NCCL's matching
  std::vector<std::size_t> at(programs.size(), 0);
  std::vector<std::size_t> entered(programs.size(), 0);
  auto pair_of = [](int rank, const Call& call) {
    return call.kind == Kind::send ? Pair{rank, call.peer} : Pair{call.peer, rank};
  };
  auto enter = [&](std::size_t rank) {
    const Batch& batch = programs[rank][at[rank]];
    ASSERT_LE(batch.calls.size(), kMostCalls);
    ASSERT_FALSE(batch.calls.empty());
    for (const Call& call : batch.calls) {
      ASSERT_TRUE(call.kind == Kind::send || call.kind == Kind::receive);
      ASSERT_GT(call.bytes, 0u);
      ASSERT_LE(call.bytes, kMostBytes);
      (call.kind == Kind::send ? sent : received)[pair_of(static_cast<int>(rank), call)].push_back(call);
    }
    entered[rank] = at[rank] + 1;
  };
  // How many of a pair's messages each end has put into batches up to and with the one under way.
  auto ended = [&](std::size_t rank) {
    for (const Call& call : programs[rank][at[rank]].calls) {
      Pair pair = pair_of(static_cast<int>(rank), call);
      const auto& mine = call.kind == Kind::send ? sent[pair] : received[pair];
      const auto& theirs = call.kind == Kind::send ? received[pair] : sent[pair];
      if (theirs.size() < mine.size()) return false;
    }
    return true;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t rank = 0; rank < programs.size(); ++rank) {
      while (at[rank] < programs[rank].size()) {
        if (entered[rank] == at[rank]) {
          enter(rank);
          if (::testing::Test::HasFatalFailure()) return;
          moved = true;
        }
        if (!ended(rank)) break;
        ++at[rank];
        moved = true;
      }
    }
  }
  for (std::size_t rank = 0; rank < programs.size(); ++rank) {
    ASSERT_EQ(at[rank], programs[rank].size())
        << "rank " << rank << " of " << programs.size() << " waits for ever";
  }
  // What met what: the bytes each message was to carry, from where to where, in its pair's order.
  std::map<Pair, std::vector<std::pair<const std::byte*, std::uint64_t>>> want;
  std::uint64_t place = 0;
  for (const Message& message : traffic.messages) {
    for (std::uint64_t offset = 0; offset < message.bytes; offset += kMostBytes) {
      want[{message.from, message.to}].emplace_back(address(place + offset),
                                                    std::min(kMostBytes, message.bytes - offset));
    }
    place += message.bytes;
  }
  for (const auto& [pair, pieces] : want) {
    std::vector<std::pair<const std::byte*, std::uint64_t>> from, to;
    for (const Call& call : sent[pair]) from.emplace_back(call.from, call.bytes);
    for (const Call& call : received[pair]) to.emplace_back(call.to, call.bytes);
    ASSERT_EQ(from, pieces) << pair.first << " to " << pair.second;
    ASSERT_EQ(to, pieces) << pair.first << " to " << pair.second;
  }
  std::size_t total = 0;
  for (const auto& [pair, calls] : sent) total += calls.size();
  std::size_t pieces = 0;
  for (const auto& [pair, list] : want) pieces += list.size();
  ASSERT_EQ(total, pieces);
}

void check(const Traffic& traffic) {
  run(programs_of(traffic), traffic);
}

// Each end's batches, as lists of the messages' sizes.
std::vector<std::vector<std::uint64_t>> sizes(const Program& program) {
  std::vector<std::vector<std::uint64_t>> out;
  for (const Batch& batch : program) {
    out.emplace_back();
    for (const Call& call : batch.calls) out.back().push_back(call.bytes);
  }
  return out;
}

TEST(NcclMessages, OfTwoRanksFillWholeBatches) {
  Traffic traffic{2, {}};
  for (std::uint64_t i = 0; i < 300; ++i) {
    traffic.messages.push_back({0, 1, i + 1});
    traffic.messages.push_back({1, 0, i + 1000});
  }
  auto programs = programs_of(traffic);
  for (const Program& program : programs) {
    ASSERT_EQ(program.size(), 3u);
    EXPECT_EQ(program[0].calls.size(), kMostCalls);
    EXPECT_EQ(program[1].calls.size(), kMostCalls);
    EXPECT_EQ(program[2].calls.size(), 600 - 2 * kMostCalls);
    EXPECT_FALSE(program[0].group.has_value());
  }
  EXPECT_EQ(sizes(programs[0]), sizes(programs[1]));
  run(programs, traffic);
}

TEST(NcclMessages, InOneDirectionOnly) {
  for (int ranks : {2, 3, 8, 130, 600}) {
    Traffic traffic{ranks, {}};
    for (std::uint64_t i = 0; i < 1000; ++i) traffic.messages.push_back({ranks - 1, 0, i + 1});
    check(traffic);
    // From one to all, and from all to one.
    Traffic out{ranks, {}}, in{ranks, {}};
    for (std::uint64_t i = 0; i < 3; ++i) {
      for (int rank = 1; rank < ranks; ++rank) {
        out.messages.push_back({0, rank, i + 1});
        in.messages.push_back({rank, 0, i + 1});
      }
    }
    check(out);
    check(in);
  }
}

TEST(NcclMessages, AroundARing) {
  for (int ranks : {2, 3, 5, 64, 257}) {
    for (int step : {1, ranks - 1, ranks / 2 + 1}) {
      Traffic traffic{ranks, {}};
      for (std::uint64_t i = 0; i < 5; ++i) {
        for (int rank = 0; rank < ranks; ++rank) {
          int to = (rank + step) % ranks;
          if (to != rank) traffic.messages.push_back({rank, to, i + 1});
        }
      }
      check(traffic);
    }
  }
}

TEST(NcclMessages, FromAllToAll) {
  for (int ranks : {2, 3, 7, 128, 129, 130, 200}) {
    Traffic traffic{ranks, {}};
    for (int from = 0; from < ranks; ++from) {
      for (int to = 0; to < ranks; ++to) {
        // Most pairs once, some often.
        std::uint64_t count = from == to ? 0 : (from + 2 * to) % 37 == 0 ? 9 : 1;
        for (std::uint64_t i = 0; i < count; ++i) traffic.messages.push_back({from, to, i + 1});
      }
    }
    check(traffic);
  }
}

TEST(NcclMessages, OfRandomUnevenTraffic) {
  Random random(7);
  for (int round = 0; round < 150; ++round) {
    SCOPED_TRACE(round);
    int ranks = round % 30 == 29 ? 600 : random.of({2, 3, 4, 7, 16, 33, 129, 140});
    auto n = static_cast<std::uint64_t>(ranks);
    Traffic traffic{ranks, {}};
    // A few ranks take part in most of it, or all alike; some pairs have bursts.
    std::uint64_t active = random.one_in(2) ? n : 1 + random.below(n);
    std::uint64_t count = random.below(3000);
    while (traffic.messages.size() < count) {
      int from = static_cast<int>(random.below(random.one_in(4) ? n : active));
      int to = static_cast<int>(random.below(random.one_in(4) ? n : active));
      if (from == to) to = (from + 1) % ranks;
      std::uint64_t burst = random.one_in(20) ? random.below(400) : 1;
      for (std::uint64_t i = 0; i < burst; ++i) {
        std::uint64_t bytes = random.one_in(40) ? random.below(3 * kMostBytes) : random.below(1000);
        traffic.messages.push_back({from, to, bytes});  // none at all too
      }
    }
    check(traffic);
    if (HasFatalFailure()) return;
  }
}

// Few peers share few batches however many ranks there are.
TEST(NcclMessages, OfFewPeersAmongManyRanks) {
  Traffic traffic{600, {}};
  for (int rank = 0; rank < 600; ++rank) {
    for (int other = rank / 8 * 8; other < rank / 8 * 8 + 8; ++other) {
      for (std::uint64_t i = 0; i < 18 && other != rank; ++i)
        traffic.messages.push_back({rank, other, i + 1});
    }
  }
  auto programs = programs_of(traffic);
  // 7 peers each way with 18 messages: 252 calls.
  for (const Program& program : programs) EXPECT_EQ(program.size(), 1u);
  run(programs, traffic);
}

// The number of a batch that an end of a message is in, told by the sizes of what else is there.
TEST(NcclMessages, StartAnewWithEachSet) {
  Schedule a(0, 2, {1}, 1, {});
  Schedule b(1, 2, {0}, 1, {});
  for (int set = 0; set < 3; ++set) {
    for (std::uint64_t i = 0; i < 129; ++i) {
      a.send(1, address(i), 1);
      b.receive(0, address(i), 1);
    }
    for (Schedule* schedule : {&a, &b}) {
      auto batches = schedule->take();
      ASSERT_EQ(batches.size(), 2u);
      EXPECT_EQ(batches[0].calls.size(), 128u);
      EXPECT_EQ(batches[1].calls.size(), 1u);
      EXPECT_TRUE(schedule->take().empty());
    }
  }
}

TEST(NcclMessages, LargeOnesAreCut) {
  Schedule schedule(3, 4, {1}, 1, {});
  schedule.receive(1, address(5), 600 * kMiB);
  auto batches = schedule.take();
  ASSERT_EQ(batches.size(), 1u);
  ASSERT_EQ(batches[0].calls.size(), 3u);
  std::uint64_t offset = 0;
  for (std::uint64_t want : {256u, 256u, 88u}) {
    const Call& call = batches[0].calls[offset / (256 * kMiB)];
    EXPECT_EQ(call.kind, Kind::receive);
    EXPECT_EQ(call.to, address(5 + offset));
    EXPECT_EQ(call.bytes, want * kMiB);
    EXPECT_EQ(call.peer, 1);
    offset += want * kMiB;
  }
}

TEST(NcclMessages, OnlyBetweenConnectedRanks) {
  Schedule schedule(1, 4, {0, 3}, 2, {});
  schedule.send(3, address(0), 1);
  EXPECT_THROW(schedule.send(2, address(0), 1), Error);
  EXPECT_THROW(schedule.receive(1, address(0), 1), Error);
  EXPECT_THROW(schedule.receive(4, address(0), 1), Error);
  EXPECT_THROW(schedule.send(-1, address(0), 1), Error);
}

// ---- collectives
// ----------------------------------------------------------------------------------------------------

std::string text(const Call& call) {
  auto offset = [](const std::byte* where) { return where == nullptr ? -1 : where - address(0); };
  static const char* names[] = {"all_gather", "broadcast", "send", "receive"};
  return fmt::format("{} {} {} {} {}", names[static_cast<int>(call.kind)], offset(call.from), offset(call.to),
                     call.bytes, call.peer);
}

// What one member does of a gather or a broadcast.
template <typename Issue>
std::vector<std::string> calls_of(int members, int position, Issue&& issue) {
  Schedule schedule(position, members, {}, 0, {Seat{members, position}});
  issue(schedule);
  std::vector<std::string> out;
  for (const Batch& batch : schedule.take()) {
    EXPECT_EQ(batch.group, std::size_t{0});
    for (const Call& call : batch.calls) out.push_back(text(call));
  }
  return out;
}

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(NcclGather, EvenPartsAreGatheredInPlace) {
  auto issue = [](Schedule& s) { s.all_gather(0, address(10), 40, 10); };
  EXPECT_THAT(calls_of(4, 0, issue), ElementsAre("all_gather 10 10 10 0"));
  EXPECT_THAT(calls_of(4, 3, issue), ElementsAre("all_gather 40 10 10 0"));
}

TEST(NcclGather, UnevenPartsOfTwoAreExchanged) {
  auto issue = [](Schedule& s) { s.all_gather(0, address(0), 17, 10); };
  EXPECT_THAT(calls_of(2, 0, issue), ElementsAre("send 0 -1 10 1", "receive -1 10 7 1"));
  EXPECT_THAT(calls_of(2, 1, issue), ElementsAre("receive -1 0 10 0", "send 10 -1 7 0"));
  auto all_with_one = [](Schedule& s) { s.all_gather(0, address(0), 10, 10); };
  EXPECT_THAT(calls_of(2, 0, all_with_one), ElementsAre("send 0 -1 10 1"));
  EXPECT_THAT(calls_of(2, 1, all_with_one), ElementsAre("receive -1 0 10 0"));
}

TEST(NcclGather, UnevenPartsOfManyAreBroadcast) {
  auto issue = [](Schedule& s) { s.all_gather(0, address(0), 17, 10); };
  for (int position : {0, 1, 2}) {
    EXPECT_THAT(calls_of(3, position, issue), ElementsAre("broadcast 0 0 10 0", "broadcast 10 10 7 1"));
  }
}

TEST(NcclGather, LargePartsAreCut) {
  constexpr std::uint64_t kPart = 300 * kMiB;
  auto issue = [](Schedule& s) { s.all_gather(0, address(0), 3 * kPart, kPart); };
  std::vector<std::string> want;
  for (std::uint64_t member = 0; member < 3; ++member) {
    std::uint64_t at = member * kPart;
    want.push_back(fmt::format("broadcast {} {} {} {}", at, at, 256 * kMiB, member));
    at += 256 * kMiB;
    want.push_back(fmt::format("broadcast {} {} {} {}", at, at, 44 * kMiB, member));
  }
  EXPECT_EQ(calls_of(3, 2, issue), want);
}

TEST(NcclGather, NothingAndNobodyNeedsNoCall) {
  auto nothing = [](Schedule& s) {
    s.all_gather(0, address(0), 0, 10);
    s.all_gather(0, address(0), 0, 0);
    s.broadcast(0, 0, address(0), 0);
  };
  EXPECT_THAT(calls_of(2, 0, nothing), IsEmpty());
  EXPECT_THAT(calls_of(3, 0, nothing), IsEmpty());
  auto alone = [](Schedule& s) {
    s.all_gather(0, address(0), 10, 10);
    s.broadcast(0, 0, address(0), 10);
  };
  EXPECT_THAT(calls_of(1, 0, alone), IsEmpty());
}

TEST(NcclBroadcast, LargeOnesAreCut) {
  EXPECT_THAT(calls_of(4, 1, [](Schedule& s) { s.broadcast(0, 2, address(1), 257 * kMiB); }),
              ElementsAre(fmt::format("broadcast 1 1 {} 2", 256 * kMiB),
                          fmt::format("broadcast {0} {0} {1} 2", 1 + 256 * kMiB, kMiB)));
}

// The same transfers on all members: the same cuts, whatever is in them, and the partners of a pair in the
// same batch.
TEST(NcclCollectives, AreCutAlikeOnAllMembers) {
  Random random(11);
  for (int round = 0; round < 100; ++round) {
    int members = static_cast<int>(2 + random.below(4));
    std::vector<Schedule> schedules;
    for (int position = 0; position < members; ++position) {
      schedules.emplace_back(position, members, std::vector<int>{}, 0,
                             std::vector<Seat>{{1, 0}, {members, position}});
    }
    std::uint64_t count = random.below(700);
    for (std::uint64_t i = 0; i < count; ++i) {
      std::uint64_t part = random.one_in(30) ? random.below(600 * kMiB) : random.below(50);
      std::uint64_t bytes = random.one_in(2) ? part * static_cast<std::uint64_t>(members)
                                             : random.below(part * static_cast<std::uint64_t>(members) + 1);
      int root = static_cast<int>(random.below(static_cast<std::uint64_t>(members)));
      bool gathers = random.one_in(2);
      for (Schedule& schedule : schedules) {
        if (gathers)
          schedule.all_gather(1, address(0), bytes, part);
        else
          schedule.broadcast(1, root, address(0), bytes);
      }
    }
    std::vector<std::vector<Batch>> all;
    for (Schedule& schedule : schedules) all.push_back(schedule.take());
    for (const auto& batches : all) {
      ASSERT_EQ(batches.size(), all[0].size());
      for (std::size_t b = 0; b < batches.size(); ++b) {
        const auto& calls = batches[b].calls;
        ASSERT_EQ(batches[b].group, std::size_t{1});
        ASSERT_EQ(calls.size(), all[0][b].calls.size());
        ASSERT_LE(calls.size(), kMostCalls);
        for (std::size_t c = 0; c < calls.size(); ++c) {
          const Call& first = all[0][b].calls[c];
          ASSERT_EQ(calls[c].bytes, first.bytes);
          if (first.kind == Kind::send || first.kind == Kind::receive) {
            if (&batches == &all[0]) continue;
            ASSERT_EQ(calls[c].kind, first.kind == Kind::send ? Kind::receive : Kind::send);
          } else {
            ASSERT_EQ(calls[c].kind, first.kind);
            ASSERT_EQ(calls[c].peer, first.peer);
          }
        }
      }
    }
  }
}

TEST(NcclCollectives, ComeGroupByGroupBeforeTheMessages) {
  Schedule schedule(0, 4, {1, 2}, 2, {{4, 0}, {1, 0}, {2, 0}});
  schedule.send(2, address(0), 4);
  schedule.broadcast(2, 0, address(0), 1);
  schedule.broadcast(0, 0, address(0), 2);
  schedule.broadcast(2, 0, address(0), 3);
  schedule.broadcast(1, 0, address(0), 9);
  std::vector<std::string> got;
  for (const Batch& batch : schedule.take()) {
    got.push_back(batch.group ? fmt::format("group {}:", *batch.group) : "all:");
    for (const Call& call : batch.calls) got.back() += fmt::format(" {}", call.bytes);
  }
  EXPECT_THAT(got, ElementsAre("group 0: 2", "group 2: 1 3", "all: 4"));
}

}  // namespace
}  // namespace slabload::nccl
