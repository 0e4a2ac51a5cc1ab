// Undoing chunk filters, on chunks that the HDF5 library itself stored (tests/vectors/make_chunk_vectors.py).
#include "backend/host/chunk_filters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace slabload::host {
namespace {

using Bytes = std::vector<std::byte>;
using Kind = ChunkFilters::Kind;
using ::testing::HasSubstr;

struct Case {
  std::string name;
  ChunkFilters filters;
  Bytes stored, plain;
};

Bytes from_hex(const std::string& hex) {
  Bytes out;
  for (std::size_t i = 0; i < hex.size(); i += 2) out.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return out;
}

FilterScratch scratch;  // the same for all, as for all datasets of a file

std::vector<Case> cases() {
  std::ifstream in(std::filesystem::path(__FILE__).parent_path() / "../vectors/chunks.json");
  std::vector<Case> out;
  for (const nlohmann::json& c : nlohmann::json::parse(in)) {
    std::vector<ChunkFilters::Filter> filters;
    for (const std::string name : c["filters"]) {
      if (name == "deflate") filters.push_back({Kind::deflate});
      if (name == "shuffle") filters.push_back({Kind::shuffle, c["element"]});
      if (name == "fletcher32") filters.push_back({Kind::fletcher32});
    }
    const Bytes plain = from_hex(c["plain"]);
    out.push_back({c["filters"].dump() + " of " + c["element"].dump(), ChunkFilters::of(filters, plain.size()).value(),
                   from_hex(c["stored"]), plain});
  }
  return out;
}

TEST(ChunkFilters, UndoWhatTheLibraryDid) {
  std::vector<Case> all = cases();
  ASSERT_EQ(all.size(), 51u);
  all.pop_back();
  for (Case& c : all) {
    Bytes got(c.plain.size());
    EXPECT_EQ(c.filters.undo(c.stored, 0, got, scratch), "") << c.name;
    EXPECT_EQ(got, c.plain) << c.name;
    EXPECT_LE(c.stored.size(), c.filters.most_stored()) << c.name;
  }
}

TEST(ChunkFilters, LeaveOutWhatTheMaskNames) {
  for (Case& c : cases()) {
    Bytes got(c.plain.size());
    EXPECT_EQ(c.filters.undo(c.plain, ~0u, got, scratch), "") << c.name;
    EXPECT_EQ(got, c.plain) << c.name;
  }
}

// A stream of 1 MiB in the place of 4 KiB.
TEST(ChunkFilters, StopAStreamThatExpandsBeyondItsChunk) {
  std::vector<Case> all = cases();
  Case& bomb = all.back();
  Bytes got(bomb.plain.size() + 64, std::byte{0x5a});
  EXPECT_THAT(bomb.filters.undo(bomb.stored, 0, std::span(got).first(bomb.plain.size()), scratch), HasSubstr("more than the 4096 bytes"));
  EXPECT_EQ(Bytes(got.end() - 64, got.end()), Bytes(64, std::byte{0x5a}));
}

TEST(ChunkFilters, RefuseWhatIsCutShort) {
  for (Case& c : cases()) {
    for (std::size_t length = 0; length < c.stored.size(); ++length) {
      Bytes got(c.plain.size());
      EXPECT_NE(c.filters.undo(std::span(c.stored).first(length), 0, got, scratch), "") << c.name << ", " << length << " bytes";
    }
  }
}

// A checksum of either kind sees every flipped bit; flips in the header of a deflate stream may mean the same.
TEST(ChunkFilters, SeeFlippedBits) {
  int seen = 0;
  for (Case& c : cases()) {
    if (c.name.find("deflate") == std::string::npos && c.name.find("fletcher32") == std::string::npos) continue;
    for (std::size_t bit = 0; bit < c.stored.size() * 8; ++bit) {
      Bytes stored = c.stored, got(c.plain.size());
      stored[bit / 8] ^= std::byte{1} << bit % 8;
      if (c.filters.undo(stored, 0, got, scratch).empty()) {
        EXPECT_EQ(got, c.plain) << c.name << ", bit " << bit;
      } else {
        ++seen;
      }
    }
  }
  EXPECT_GT(seen, 10000);
}

TEST(ChunkFilters, LeaveToTheLibraryWhatHasNoBounds) {
  EXPECT_FALSE(ChunkFilters::of({{Kind::deflate}, {Kind::deflate}}, 8).has_value());
  EXPECT_TRUE(ChunkFilters::of({}, 8).has_value());
}

}  // namespace
}  // namespace slabload::host
