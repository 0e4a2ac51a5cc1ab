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

// ---- alarms

// What this rank hears, with nothing but alarmed() to move MPI along.
Error heard(mpi::MpiControl& control) {
  for (;;) {
    if (std::optional<Error> alarm = control.alarmed()) return *alarm;
  }
}

Error failure_of(int rank) {
  return Error(rank % 2 ? Status::file : Status::peer, fmt::format("what broke on {}", rank));
}

void expect_alarm_of(const Error& alarm, int rank) {
  EXPECT_TRUE(alarm.second_hand());
  EXPECT_FALSE(alarm.agreed());
  EXPECT_EQ(alarm.rank(), rank);
  EXPECT_EQ(alarm.status(), failure_of(rank).status());
  EXPECT_THAT(alarm.message(), EndsWith(failure_of(rank).message()));
  EXPECT_THAT(alarm.message(), StartsWith(rank == 0 ? "what" : fmt::format("[rank {} ", rank)));
}

// Throws what `together` does when the culprits fail and the others go by their alarm.
void fail_with_alarm(mpi::MpiControl& control, const std::set<int>& culprits) {
  together(control, [&] {
    if (culprits.count(control.rank()) != 0) {
      Error mine = failure_of(control.rank());
      control.alarm(mine);
      throw mine;
    }
    wait_until(control, [] { return false; });
  });
}

TEST(Alarm, ReachesEveryOtherRankAndStays) {
  mpi::MpiControl control(MPI_COMM_WORLD);
  EXPECT_FALSE(control.alarmed());
  control.barrier();
  int culprit = control.ranks() - 1;
  if (control.rank() == culprit) {
    control.alarm(failure_of(culprit));
    control.alarm(Error(Status::internal, "what follows from it"));
    EXPECT_FALSE(control.alarmed());
  } else {
    expect_alarm_of(heard(control), culprit);
    for (int i = 0; i < 3; ++i) {
      std::optional<Error> again = control.alarmed();
      ASSERT_TRUE(again);
      expect_alarm_of(*again, culprit);
    }
  }
  control.barrier();
}

TEST(Alarm, EndsAWaitAndBecomesTheAgreedError) {
  mpi::MpiControl control(MPI_COMM_WORLD);
  int ranks = control.ranks();
  for (const std::set<int>& culprits :
       {std::set<int>{0}, {ranks - 1}, {ranks / 2, ranks - 1}, {0, ranks / 2}}) {
    try {
      fail_with_alarm(control, culprits);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      int first = *culprits.begin();
      EXPECT_TRUE(error.agreed());
      EXPECT_FALSE(error.second_hand());
      EXPECT_EQ(error.rank(), first);
      EXPECT_EQ(error.status(), failure_of(first).status());
      EXPECT_THAT(error.message(), EndsWith(failure_of(first).message()));
    }
    // The agreement has settled all alarms, heard or not: none of them is left for the next round.
    EXPECT_FALSE(control.alarmed());
    control.barrier();
  }
}

TEST(Alarm, OfAllAtOnceReachesAll) {
  mpi::MpiControl control(MPI_COMM_WORLD);
  for (int turn = 0; turn < 3; ++turn) {
    control.alarm(failure_of(control.rank()));
    if (control.ranks() > 1) {
      Error alarm = heard(control);
      EXPECT_NE(alarm.rank(), control.rank());
      expect_alarm_of(alarm, alarm.rank());
    }
    EXPECT_THROW(control.agree(failure_of(control.rank())), Error);
  }
}

// Ranks that never wait do not hear it, and the agreement is none the worse.
TEST(Alarm, NeedsNotBeHeard) {
  mpi::MpiControl control(MPI_COMM_WORLD);
  for (int turn = 0; turn < 3; ++turn) {
    std::optional<Error> mine;
    if (control.rank() == turn % control.ranks()) mine = failure_of(control.rank());
    if (mine) control.alarm(*mine);
    EXPECT_THROW(control.agree(mine), Error);
    EXPECT_FALSE(control.alarmed());
    EXPECT_NO_THROW(control.agree(std::nullopt));
  }
}

TEST(Alarm, IsCutToWhatIsSentAtOnce) {
  mpi::MpiControl control(MPI_COMM_WORLD);
  std::string text(100000, 'm');
  if (control.rank() == 0) {
    control.alarm(Error(Status::usage, text));  // returns although nobody receives
    control.barrier();
  } else {
    control.barrier();
    Error alarm = heard(control);
    EXPECT_EQ(alarm.status(), Status::usage);
    EXPECT_EQ(alarm.message(), text.substr(0, 2047));
  }
  control.barrier();
}

// A job that is about to be ended: neither the object nor what comes after it waits for those that did not
// listen.
TEST(Alarm, DoesNotKeepTheSenderWhenNobodyListens) {
  mpi::MpiControl after(MPI_COMM_WORLD);
  for (bool all : {false, true}) {
    {
      mpi::MpiControl control(MPI_COMM_WORLD);
      if (all || control.rank() == 0) control.alarm(Error(Status::peer, std::string(5000, 'x')));
      after.barrier();  // the alarms come before it, to objects that still stand
    }
    EXPECT_FALSE(after.alarmed());
  }
}

// An alarm whose culprit does not come to the agreement with its error must not pass for success.
TEST(Together, ThrowsAnAlarmThatNobodyOwnsUpTo) {
  mpi::MpiControl control(MPI_COMM_WORLD);
  int heard_it = 0;
  try {
    together(control, [&] {
      if (control.rank() == 0) {
        control.alarm(failure_of(0));
      } else {
        wait_until(control, [] { return false; });
      }
    });
  } catch (const Error& error) {
    expect_alarm_of(error, 0);
    ++heard_it;
  }
  EXPECT_EQ(heard_it, control.rank() == 0 ? 0 : 1);
  control.barrier();
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
