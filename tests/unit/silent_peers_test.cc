#include "backend/host/silent_peers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace slabload::host {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// As a kernel on a little-endian machine printed it, on two hosts of which one had its link cut; the last lines made up.
constexpr const char* kTable =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    "   0: 00000000:0401 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 900 1 0000 100 0 0 10 0\n"
    "   1: 01004D0A:8B42 02004D0A:0400 01 00018A10:00000000 01:00000130 00000005     0        0 901 3 0000 1600 4 30 1 7\n"
    "   2: 01004D0A:8B44 03004D0A:0400 01 00000000:00000000 00:00000000 00000000     0        0 902 1 0000 20 4 30 10 -1\n"
    "   3: 01004D0A:8B46 04004D0A:0400 01 00000010:00000000 01:00000130 00000002     0        0 903 3 0000 1600 4 30 1 7\n"
    "   4: 01004D0A:8B48 05004D0A:0400 01 00000010:00000000 01:00000130 0000000A     0        0 904 3 0000 1600 4 30 1 7\n"
    "   5: 01004D0A:8B4A 02004D0A:0402 01 00000010:00000000 01:00000130 00000003     0        0 905 3 0000 1600 4 30 1 7\n";

TEST(SilentPeers, AreThoseThatTheKernelSendsToAgainAndAgain) {
  EXPECT_THAT(silent_peers(kTable, {901, 902, 903, 905}), ElementsAre("10.77.0.2"));
  EXPECT_THAT(silent_peers(kTable, {901, 904}), ElementsAre("10.77.0.2", "10.77.0.5"));
}

TEST(SilentPeers, OnlyOfTheSocketsAskedFor) {
  EXPECT_THAT(silent_peers(kTable, {}), IsEmpty());
  EXPECT_THAT(silent_peers(kTable, {902, 903}), IsEmpty());
}

TEST(SilentPeers, ReadsBothKindsOfAddress) {
  // ::ffff:10.77.0.2 and fe80::1
  constexpr const char* six =
      "   1: 0000000000000000FFFF000001004D0A:8B42 0000000000000000FFFF000002004D0A:0400 01 00000001:00000000 01:00000130 "
      "00000005     0        0 7 3 0000 1600 4 30 1 7\n"
      "   2: 000080FE000000000000000002000000:8B42 000080FE000000000000000001000000:0400 01 00000001:00000000 01:00000130 "
      "00000005     0        0 8 3 0000 1600 4 30 1 7\n";
  EXPECT_THAT(silent_peers(six, {7}), ElementsAre("10.77.0.2"));
  EXPECT_THAT(silent_peers(six, {8}), ElementsAre("fe80::1"));
}

TEST(SilentPeers, LeavesOutWhatItDoesNotUnderstand) {
  EXPECT_THAT(silent_peers("", {1}), IsEmpty());
  EXPECT_THAT(silent_peers("   1: x\n\n   1: 0:0 zz:0 01 0:0 0:0 9 0 0 1\n  2: 0:0 123:0 01 0:0 0:0 9 0 0 1\n", {1}), IsEmpty());
}

TEST(SilentPeers, NobodyIsSilentInAProcessWithoutConnections) {
  EXPECT_THAT(silent_peers(), IsEmpty());
}

}  // namespace
}  // namespace slabload::host
