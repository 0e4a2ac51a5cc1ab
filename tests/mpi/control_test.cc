// The small collectives, on any number of ranks.
#include "backend/mpi/control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <set>

namespace slabload {
namespace {

using ::testing::EndsWith;
using ::testing::IsEmpty;
using ::testing::StartsWith;

TEST(MpiControl, KnowsItsPlace) {
  mpi::MpiControl control(MPI_COMM_WORLD);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  EXPECT_EQ(control.rank(), rank);
  EXPECT_EQ(control.ranks(), ranks);
  EXPECT_FALSE(control.host().empty());
  control.barrier();
}

TEST(MpiControl, BroadcastsStringsOfAnySizeFromAnyRank) {
  mpi::MpiControl control(MPI_COMM_WORLD);
  for (int root : std::set<int>{0, control.ranks() / 2, control.ranks() - 1}) {
    for (std::size_t size : {0u, 1u, 1000u, 70001u}) {
      std::string want;
      for (std::size_t i = 0; i < size; ++i)
        want += static_cast<char>(i * 7 + static_cast<std::size_t>(root));
      // What the others pass does not matter.
      std::string mine =
          control.rank() == root ? want : std::string(static_cast<std::size_t>(control.rank()) * 13, 'x');
      EXPECT_TRUE(control.broadcast(mine, root) == want) << size << " bytes of rank " << root;
    }
  }
}

TEST(MpiControl, BroadcastsManyMebibytes) {
  mpi::MpiControl control(MPI_COMM_WORLD);
  std::string bytes;
  std::size_t size = (32 << 20) + 3;
  if (control.rank() == 0) {
    bytes.assign(size, 'a');
    bytes[size / 2] = 'b';
    bytes.back() = 'c';
  }
  bytes = control.broadcast(std::move(bytes), 0);
  ASSERT_EQ(bytes.size(), size);
  EXPECT_EQ(bytes[0], 'a');
  EXPECT_EQ(bytes[size / 2], 'b');
  EXPECT_EQ(bytes.back(), 'c');
}

TEST(MpiControl, GathersInRankOrder) {
  mpi::MpiControl control(MPI_COMM_WORLD);
  // Lengths that differ, rank 0's none at all.
  auto of = [](int rank) {
    return std::string(static_cast<std::size_t>(rank) * 3, static_cast<char>('a' + rank));
  };
  std::vector<std::string> all = control.gather(of(control.rank()));
  if (control.rank() != 0) {
    EXPECT_THAT(all, IsEmpty());
    return;
  }
  ASSERT_EQ(all.size(), static_cast<std::size_t>(control.ranks()));
  for (int rank = 0; rank < control.ranks(); ++rank) EXPECT_EQ(all[static_cast<std::size_t>(rank)], of(rank));
}

TEST(MpiControl, GathersNothing) {
  mpi::MpiControl control(MPI_COMM_WORLD);
  std::vector<std::string> all = control.gather("");
  EXPECT_EQ(all.size(), control.rank() == 0 ? static_cast<std::size_t>(control.ranks()) : 0u);
  for (const std::string& one : all) EXPECT_TRUE(one.empty());
}

TEST(MpiControl, ReducesElementByElement) {
  mpi::MpiControl control(MPI_COMM_WORLD);
  auto ranks = static_cast<std::uint64_t>(control.ranks());
  auto rank = static_cast<std::uint64_t>(control.rank());
  constexpr std::uint64_t kTop = std::uint64_t{1} << 63;
  for (std::size_t length : {0u, 1u, 5u, 3000u}) {
    std::vector<std::uint64_t> sum(length), max(length), min(length), bits(length);
    std::vector<std::uint64_t> want_sum(length), want_xor(length);
    for (std::size_t i = 0; i < length; ++i) {
      sum[i] = rank * 10 + i;
      max[i] = min[i] = (rank + i) % ranks + kTop;  // unsigned: larger than any signed number
      bits[i] = (rank + 1) * 0x9e3779b97f4a7c15 + i;
      for (std::uint64_t r = 0; r < ranks; ++r) {
        want_sum[i] += r * 10 + i;
        want_xor[i] ^= (r + 1) * 0x9e3779b97f4a7c15 + i;
      }
    }
    control.sum(sum);
    control.max(max);
    control.min(min);
    control.bit_xor(bits);
    EXPECT_EQ(sum, want_sum);
    EXPECT_EQ(bits, want_xor);
    EXPECT_EQ(max, std::vector<std::uint64_t>(length, kTop + ranks - 1));
    EXPECT_EQ(min, std::vector<std::uint64_t>(length, kTop));
  }
}

void expect_agreement(const std::set<int>& culprits, int lowest) {
  mpi::MpiControl control(MPI_COMM_WORLD);
  std::optional<Error> mine;
  if (culprits.count(control.rank()) != 0) {
    mine = Error(control.rank() % 2 ? Status::file : Status::wrong_data,
                 fmt::format("what went wrong on {}", control.rank()));
  }
  try {
    control.agree(mine);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    std::string message = fmt::format("what went wrong on {}", lowest);
    EXPECT_TRUE(error.agreed());
    EXPECT_EQ(error.rank(), lowest);
    EXPECT_EQ(error.status(), lowest % 2 ? Status::file : Status::wrong_data);
    EXPECT_THAT(error.message(), EndsWith(message));
    EXPECT_THAT(error.message(), StartsWith(lowest == 0 ? message : fmt::format("[rank {} ", lowest)));
  }
}

TEST(MpiControl, AgreesThatAllAreWell) {
  mpi::MpiControl control(MPI_COMM_WORLD);
  for (int i = 0; i < 3; ++i) EXPECT_NO_THROW(control.agree(std::nullopt));
}

TEST(MpiControl, AgreesOnTheLowestRanksError) {
  int ranks;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  expect_agreement({0}, 0);
  expect_agreement({ranks - 1}, ranks - 1);
  expect_agreement({ranks / 2, ranks - 1}, ranks / 2);
  std::set<int> all;
  for (int rank = 0; rank < ranks; ++rank) all.insert(rank);
  expect_agreement(all, 0);
}

TEST(MpiControl, AgreesOnLongMessages) {
  mpi::MpiControl control(MPI_COMM_WORLD);
  std::string text(100000, 'm');
  std::optional<Error> mine;
  if (control.rank() == control.ranks() - 1) mine = Error(Status::usage, text);
  try {
    control.agree(mine);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::usage);
    EXPECT_THAT(error.message(), EndsWith(text));
  }
}

// Whatever a step throws on one rank, no rank goes on.
TEST(Together, TurnsWhatOneRankThrowsIntoEveryonesError) {
  mpi::MpiControl control(MPI_COMM_WORLD);
  int last = control.ranks() - 1;
  auto thrown = [&](auto&& step) {
    try {
      together(control, [&] {
        if (control.rank() == last) step();
      });
    } catch (const Error& error) {
      EXPECT_TRUE(error.agreed());
      EXPECT_EQ(error.rank(), last);
      return error;
    }
    ADD_FAILURE() << "no error";
    return Error(Status::ok, "");
  };
  EXPECT_EQ(thrown([] { fail(Status::usage, "ours"); }).status(), Status::usage);
  Error memory = thrown([] { throw std::bad_alloc(); });
  EXPECT_EQ(memory.status(), Status::internal);
  EXPECT_THAT(memory.message(), EndsWith("out of memory"));
  EXPECT_THAT(thrown([] { throw std::runtime_error("theirs"); }).message(), EndsWith("theirs"));
  int steps = 0;
  together(control, [&] { ++steps; });
  EXPECT_EQ(steps, 1);
}

TEST(Together, DoesNotAgreeTwice) {
  mpi::MpiControl control(MPI_COMM_WORLD);
  try {
    together(control, [&] {
      together(control, [&] {
        if (control.rank() == 0) fail(Status::file, "inner");
      });
    });
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), EndsWith("inner"));
  }
  control.barrier();  // nobody is left behind in an agreement of its own
}

}  // namespace
}  // namespace slabload
