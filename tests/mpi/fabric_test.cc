// What every Fabric has to do, whichever moves the bytes: add a maker to the list at the end to put another
// to the test.
#include "backend/fabric.h"

#include <gtest/gtest.h>
#include <mpi.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "backend/mpi/fabric.h"
#include "fakes/random_case.h"
#include "fakes/reference.h"

namespace slabload {
namespace {

using slabload::testing::mix64;
using slabload::testing::Random;

struct Maker {
  const char* name;
  std::function<std::unique_ptr<Fabric>()> make;
};
void PrintTo(const Maker& maker, std::ostream* out) {
  *out << maker.name;
}

// Bytes that say what they are: no two messages of a test are alike.
std::string content(std::uint64_t key, std::uint64_t size) {
  std::string out;
  for (std::uint64_t i = 0; i < size; ++i) out += static_cast<char>(mix64(key * 1000003 + i));
  return out;
}

class FabricContract : public ::testing::TestWithParam<Maker> {
 protected:
  void SetUp() override {
    fabric = GetParam().make();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  }
  void run() {
    fabric->start();
    fabric->progress();
    fabric->finish();
  }
  std::vector<int> everyone() const {
    std::vector<int> out;
    for (int r = 0; r < ranks; ++r) out.push_back(r);
    return out;
  }

  std::unique_ptr<Fabric> fabric;
  int rank = 0, ranks = 1;
};

TEST_P(FabricContract, AllGathersInPlaceWithUnevenAndEmptyLastParts) {
  fabric->make_groups({everyone()});
  auto n = static_cast<std::uint64_t>(ranks);
  auto me = static_cast<std::uint64_t>(rank);
  struct Case {
    std::uint64_t bytes, part;
  };
  // Even, a short last part, most parts empty, one member with all, and a large one.
  for (Case c : {Case{n * 8, 8}, Case{n * 8 - 3, 8}, Case{n * 100 + 1, 101}, Case{5, 5}, Case{7, 4},
                 Case{1, 1000}, Case{n * 300000 - 17, 300000}}) {
    if (c.part * n < c.bytes) continue;
    std::string want = content(c.bytes, c.bytes);
    std::string region(c.bytes, '\x11');
    std::uint64_t begin = std::min(c.bytes, me * c.part);
    std::uint64_t end = std::min(c.bytes, (me + 1) * c.part);
    region.replace(begin, end - begin, want, begin, end - begin);
    std::string guarded = "guard" + region + "guard";
    fabric->all_gather(0, guarded.data() + 5, c.bytes, c.part);
    run();
    EXPECT_TRUE(guarded == "guard" + want + "guard") << c.bytes << " bytes in parts of " << c.part;
  }
}

TEST_P(FabricContract, BroadcastsFromEveryRoot) {
  fabric->make_groups({everyone()});
  for (int root = 0; root < ranks; ++root) {
    for (std::uint64_t size : {1u, 77u, 200000u}) {
      std::string want = content(static_cast<std::uint64_t>(root) * 7 + size, size);
      std::string data = rank == root ? want : std::string(size, '\0');
      fabric->broadcast(0, root, data.data(), size);
      run();
      EXPECT_TRUE(data == want) << size << " bytes of " << root;
    }
  }
}

// Rows and columns of a mesh, groups of one, and the whole world, side by side in one set.
TEST_P(FabricContract, KeepsGroupsApart) {
  int columns = ranks % 2 == 0 ? 2 : ranks % 3 == 0 ? 3 : 1;
  std::vector<int> row, column;
  for (int r = 0; r < ranks; ++r) {
    if (r / columns == rank / columns) row.push_back(r);
    if (r % columns == rank % columns) column.push_back(r);
  }
  std::vector<std::vector<int>> groups{row, column, {rank}, everyone()};
  fabric->make_groups(groups);
  constexpr std::uint64_t kPart = 24;
  auto member_part = [](std::size_t group, int member) {
    return content(group * 1000 + static_cast<std::uint64_t>(member), kPart);
  };
  std::vector<std::string> regions, wants, casts, want_casts;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    std::string region, want;
    for (int member : groups[g]) {
      region += member == rank ? member_part(g, member) : std::string(kPart, '\0');
      want += member_part(g, member);
    }
    regions.push_back(region);
    wants.push_back(want);
    int root = groups[g].back();
    want_casts.push_back(content(g * 777 + static_cast<std::uint64_t>(root), 50));
    casts.push_back(root == rank ? want_casts.back() : std::string(50, '\0'));
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    fabric->all_gather(g, regions[g].data(), regions[g].size(), kPart);
    fabric->broadcast(g, static_cast<int>(groups[g].size()) - 1, casts[g].data(), casts[g].size());
  }
  run();
  EXPECT_EQ(regions, wants);
  EXPECT_EQ(casts, want_casts);
}

TEST_P(FabricContract, KeepsTheOrderOfCollectives) {
  fabric->make_groups({everyone(), everyone()});
  std::deque<std::string> data, want;
  for (std::uint64_t i = 0; i < 40; ++i) {
    int root = static_cast<int>(i * 3 % static_cast<std::uint64_t>(ranks));
    want.push_back(content(i, 10 + i % 3));
    data.push_back(rank == root ? want.back() : std::string(want.back().size(), '\0'));
    fabric->broadcast(i % 2, root, data.back().data(), data.back().size());
  }
  run();
  EXPECT_EQ(data, want);
}

TEST_P(FabricContract, MessagesOfAPairArriveInTheirOrder) {
  fabric->make_groups({});
  // All of one size: only the order tells them apart.
  constexpr std::uint64_t kCount = 20, kSize = 33;
  auto key = [&](int from, int to, std::uint64_t i) {
    return (static_cast<std::uint64_t>(from) * 64 + static_cast<std::uint64_t>(to)) * 1000 + i;
  };
  std::deque<std::string> sent, got, want;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    for (int peer = 0; peer < ranks; ++peer) {
      if (peer == rank) continue;
      got.emplace_back(kSize, '\0');
      want.push_back(content(key(peer, rank, i), kSize));
      fabric->receive(peer, got.back().data(), kSize);
    }
  }
  for (std::uint64_t i = 0; i < kCount; ++i) {
    for (int peer = ranks; peer-- > 0;) {
      if (peer == rank) continue;
      sent.push_back(content(key(rank, peer, i), kSize));
      fabric->send(peer, sent.back().data(), kSize);
    }
  }
  run();
  EXPECT_EQ(got, want);
}

// Random sizes between random pairs, a thousand in a set and several sets one after the other.
TEST_P(FabricContract, ManyMessagesOfRandomSizes) {
  fabric->make_groups({everyone()});
  Random random(5);  // the same on all ranks
  for (int set = 0; set < 4; ++set) {
    std::deque<std::string> sent, got, want;
    std::string region(static_cast<std::size_t>(ranks) * 16, '\0'), whole;
    for (int r = 0; r < ranks; ++r) whole += content(static_cast<std::uint64_t>(set * 100 + r) + 9999999, 16);
    region.replace(static_cast<std::size_t>(rank) * 16, 16, whole, static_cast<std::size_t>(rank) * 16, 16);
    for (std::uint64_t i = 0; i < 1000; ++i) {
      int from = static_cast<int>(random.below(static_cast<std::uint64_t>(ranks)));
      int to = static_cast<int>(random.below(static_cast<std::uint64_t>(ranks)));
      std::uint64_t size = random.one_in(50) ? 20000 + random.below(60000) : 1 + random.below(500);
      if (i == 500) fabric->all_gather(0, region.data(), region.size(), 16);
      if (from == to) continue;
      if (rank == from) {
        sent.push_back(content(i, size));
        fabric->send(to, sent.back().data(), size);
      } else if (rank == to) {
        got.emplace_back(size, '\0');
        want.push_back(content(i, size));
        fabric->receive(from, got.back().data(), size);
      }
    }
    run();
    EXPECT_TRUE(got == want) << "set " << set;
    EXPECT_TRUE(region == whole) << "set " << set;
  }
}

// Both send before either receives: more than a system buffers for them.
TEST_P(FabricContract, LargeMessagesBothWaysDoNotWaitForEachOther) {
  fabric->make_groups({});
  int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  constexpr std::uint64_t kSize = 4 << 20;
  std::string mine(kSize, static_cast<char>('a' + rank)), got(kSize, '\0');
  if (ranks > 1) {
    fabric->send(next, mine.data(), kSize);
    fabric->receive(before, got.data(), kSize);
    run();
    EXPECT_TRUE(got == std::string(kSize, static_cast<char>('a' + before)));
  }
  EXPECT_EQ(mine[kSize - 1], static_cast<char>('a' + rank));
}

TEST_P(FabricContract, TransfersOfNothing) {
  fabric->make_groups({everyone()});
  for (int i = 0; i < 3; ++i) run();  // an empty set
  char byte = 'z';
  int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  fabric->broadcast(0, 0, &byte, 0);
  fabric->all_gather(0, &byte, 0, 1);
  if (ranks > 1) {
    fabric->receive(before, &byte, 0);
    fabric->send(next, &byte, 0);
  }
  run();
  EXPECT_EQ(byte, 'z');
  // And what follows is not mixed up with it.
  std::string data = rank == 0 ? "after" : "xxxxx";
  fabric->broadcast(0, 0, data.data(), data.size());
  run();
  EXPECT_EQ(data, "after");
}

TEST_P(FabricContract, OnlySomeRanksTakePartInASet) {
  fabric->make_groups({});
  std::string data = "message";
  if (ranks > 1 && rank == 0) fabric->send(ranks - 1, data.data(), data.size());
  if (ranks > 1 && rank == ranks - 1) {
    data.assign(7, '\0');
    fabric->receive(0, data.data(), data.size());
  }
  run();
  EXPECT_EQ(data, "message");
}

TEST_P(FabricContract, SaysWhatItIs) {
  EXPECT_FALSE(fabric->description().empty());
}

INSTANTIATE_TEST_SUITE_P(Fabrics, FabricContract,
                         ::testing::Values(Maker{
                             "mpi", [] { return std::make_unique<mpi::MpiFabric>(MPI_COMM_WORLD); }}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace slabload
