// Ranks that share a node share its link: readers are spread over the nodes, and what nodes read and get is
// counted right.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "fakes/random_case.h"
#include "fakes/tables.h"
#include "plan/plan_part.h"
#include "plan/simulate.h"

namespace slabload {
namespace {

using slabload::testing::Random;
using slabload::testing::RandomCase;
using slabload::testing::rich_case;
using slabload::testing::table;

// The order is one of all members, and its first k are on as many nodes as there are, up to k.
void expect_spread(const RankGroup& group, const NodeMap& nodes, bool strict) {
  const ReaderOrder order(group, nodes);
  std::set<std::uint64_t> all;
  for (std::uint64_t i = 0; i < group.size(); ++i) all.insert(nodes.node(group[i]));
  std::set<std::uint64_t> members;
  std::set<std::uint64_t> seen;
  for (std::uint64_t i = 0; i < group.size(); ++i) {
    const std::uint64_t member = order.member(i);
    ASSERT_LT(member, group.size());
    ASSERT_TRUE(members.insert(member).second) << "member " << member << " twice";
    ASSERT_EQ(order.member(i + group.size()), member);
    seen.insert(nodes.node(group[member]));
    if (strict) {
      ASSERT_EQ(seen.size(), std::min<std::uint64_t>(i + 1, all.size())) << "after " << i + 1;
    }
  }
}

TEST(ReaderOrder, TakesNodesInTurn) {
  int groups = 0;
  for (std::uint64_t per_node : {1, 2, 3, 4, 8, 100}) {
    for (const auto& sizes : std::vector<std::vector<std::uint64_t>>{
             {1}, {2}, {8}, {10}, {64}, {4, 8}, {8, 4}, {2, 3, 4}, {6, 1, 8}, {5, 7}}) {
      std::vector<MeshAxis> axes;
      for (std::size_t a = 0; a < sizes.size(); ++a)
        axes.push_back({std::string(1, static_cast<char>('a' + a)), sizes[a]});
      const Mesh mesh(axes);
      for (std::uint32_t mask = 0; mask < (1u << sizes.size()); ++mask) {
        for (std::uint64_t rank = 0; rank < mesh.ranks(); ++rank) {
          const RankGroup group = RankGroup::along(mesh, mask, rank);
          const NodeMap nodes(per_node);
          // Where each node but the last has equally many members.
          std::map<std::uint64_t, std::uint64_t> counts;
          for (std::uint64_t i = 0; i < group.size(); ++i) ++counts[nodes.node(group[i])];
          bool even = counts.rbegin()->second <= counts.begin()->second;
          for (auto it = counts.begin(); std::next(it) != counts.end(); ++it)
            even = even && it->second == counts.begin()->second;
          expect_spread(group, nodes, even);
          if (HasFailure()) FAIL() << per_node << " " << mesh.text() << " mask " << mask << " rank " << rank;
          ++groups;
        }
      }
    }
  }
  EXPECT_GT(groups, 3000);
}

TEST(ReaderOrder, TakesAnyMapOfNodes) {
  Random random(3);
  for (int i = 0; i < 500; ++i) {
    const std::uint64_t ranks = 1 + random.below(40);
    std::vector<std::uint32_t> node_of;
    for (std::uint64_t r = 0; r < ranks; ++r) node_of.push_back(static_cast<std::uint32_t>(random.below(5)));
    expect_spread(RankGroup::all(ranks), NodeMap(node_of), false);
    // Round robin.
    for (std::uint64_t r = 0; r < ranks; ++r) node_of[r] = static_cast<std::uint32_t>(r % 7);
    expect_spread(RankGroup::all(ranks), NodeMap(node_of), true);
    if (HasFailure()) return;
  }
}

// No node's link carries more than its share.
TEST(NodeShare, IsEven) {
  const TensorIndex index = table("qwen2.5-0.5b.tsv");
  double worst = 0;
  for (const char* strategy : {"slab", "auto", "linear"}) {
    for (std::uint64_t ranks : {16, 64}) {
      for (std::uint64_t per_node : {1, 4, 8}) {
        const std::vector<std::pair<const char*, std::vector<MeshAxis>>> meshes{
            {"replicate", {{"dp_shard", ranks}}},
            {"hsdp", {{"dp_replicate", ranks / 4}, {"dp_shard", 4}}},
            {"hsdp", {{"dp_shard", ranks / 4}, {"dp_replicate", 4}}},
            {"hsdp", {{"dp_replicate", 2}, {"dp_shard", ranks / 2}}},
            {"tp", {{"dp_replicate", ranks / 2}, {"tp", 2}}},
            {"fsdp2+tp", {{"dp_shard", ranks / 2}, {"tp", 2}}}};
        for (const auto& [preset, axes] : meshes) {
          const Layout layout = Layout::preset(preset, Mesh(axes));
          PlanParams params;
          params.strategy = strategy;
          params.nodes = NodeMap(per_node);
          SimulateOptions counts_only;
          counts_only.validate = false;
          const PlanSummary summary = simulate(index, layout, params, counts_only);
          ASSERT_EQ(summary.nodes, ranks / per_node);
          ASSERT_EQ(summary.node_read_bytes.sum, summary.read_bytes.sum);
          const double share =
              static_cast<double>(summary.node_read_bytes.max) / summary.node_read_bytes.mean(summary.nodes);
          // Extents that are cut at stripes of the file are less even.
          EXPECT_LE(share, std::string(strategy) == "linear" ? 1.15 : 1.06)
              << strategy << " " << preset << " " << layout.mesh().text() << " per node " << per_node;
          worst = std::max(worst, share);
        }
      }
    }
  }
  RecordProperty("worst_percent", static_cast<int>(100 * worst));
}

// Where a few of many owners read, they are on different nodes.
TEST(NodeShare, FewReadersAreOnDifferentNodes) {
  TensorIndex index;
  TensorMeta tensor;
  tensor.name = tensor.path = "w";
  tensor.dtype = DType::f32;
  tensor.shape = Shape{1024, 1024};
  tensor.stored_bytes = tensor.bytes();
  index.tensors = {tensor};
  const Layout layout = Layout::preset("replicate", Mesh({{"dp_shard", 1024}}));
  PlanParams params;
  params.nodes = NodeMap(8);
  std::map<std::uint64_t, std::uint64_t> readers;  // by node
  auto planner = Planner::make(index, layout, params);
  for (std::uint64_t rank = 0; rank < 1024; ++rank) {
    for (const Round& round : planner->plan(rank).rounds) {
      if (!round.reads.empty()) ++readers[rank / 8];
    }
  }
  EXPECT_GE(readers.size(), 4u);
  for (const auto& [node, count] : readers) EXPECT_EQ(count, 1u) << node;
}

struct NodeBytes {
  std::uint64_t read = 0, filled = 0;
};

// What nodes read and get, one item at a time: of a collective, a node gets once what none of its members
// brings.
std::map<std::uint64_t, NodeBytes> count_by_node(const RandomCase& c, const std::vector<LoadPlan>& plans) {
  std::map<std::uint64_t, NodeBytes> out;
  const NodeMap& nodes = c.params.nodes;
  for (const LoadPlan& plan : plans) out[nodes.node(plan.rank)];
  // Of a node: the collectives that were counted, by round, members and number.
  std::set<std::tuple<std::uint64_t, std::size_t, std::vector<int>, std::size_t>> counted;
  for (const LoadPlan& plan : plans) {
    const std::uint64_t node = nodes.node(plan.rank);
    for (std::size_t r = 0; r < plan.rounds.size(); ++r) {
      for (const ReadItem& read : plan.rounds[r].reads) {
        const TensorMeta& tensor = c.index.tensors[read.tensor];
        if (tensor.storage != StorageKind::fill)
          out[node].read += read.box.elements() * dtype_size(tensor.dtype);
      }
      std::map<std::vector<int>, std::size_t> numbers;
      for (const FillItem& fill : plan.rounds[r].fills) {
        if (fill.kind == FillItem::Kind::receive && nodes.node(fill.peer) != node)
          out[node].filled += fill.bytes;
        if (fill.kind != FillItem::Kind::broadcast && fill.kind != FillItem::Kind::all_gather) continue;
        const std::vector<int> group = plan.groups[fill.group].ranks();
        if (!counted.emplace(node, r, group, numbers[group]++).second) continue;
        std::vector<bool> has(fill.bytes, false);
        for (std::size_t m = 0; m < group.size(); ++m) {
          if (nodes.node(static_cast<std::uint64_t>(group[m])) != node) continue;
          std::uint64_t begin =
              fill.kind == FillItem::Kind::broadcast ? 0 : std::min(fill.bytes, m * fill.part);
          std::uint64_t end = fill.kind == FillItem::Kind::broadcast
                                  ? (m == fill.peer ? fill.bytes : 0)
                                  : std::min(fill.bytes, (m + 1) * fill.part);
          for (; begin < end; ++begin) has[begin] = true;
        }
        out[node].filled += static_cast<std::uint64_t>(std::count(has.begin(), has.end(), false));
      }
    }
  }
  return out;
}

void expect_counted(const RandomCase& c, int* with_fills) {
  const Layout layout = c.layout();
  std::vector<LoadPlan> plans;
  SimulateOptions options;
  options.validate = false;
  options.watch = [&](const LoadPlan& plan) { plans.push_back(plan); };
  PlanSummary summary;
  try {
    summary = simulate(c.index, layout, c.params, options);
  } catch (const Error&) {
    return;  // does not fit its budget
  }
  RankSpread read;
  RankSpread filled;
  for (const auto& [node, bytes] : count_by_node(c, plans)) {
    read.add(bytes.read, node);
    filled.add(bytes.filled, node);
  }
  ASSERT_EQ(summary.node_read_bytes.sum, read.sum);
  ASSERT_EQ(summary.node_read_bytes.min, read.min);
  ASSERT_EQ(summary.node_read_bytes.max, read.max);
  ASSERT_EQ(summary.node_fill_bytes.sum, filled.sum);
  ASSERT_EQ(summary.node_fill_bytes.min, filled.min);
  ASSERT_EQ(summary.node_fill_bytes.max, filled.max);
  *with_fills += filled.sum != 0;
}

TEST(NodeShare, IsCountedAsThePlansSay) {
  int with_fills = 0;
  for (std::uint64_t seed = 0; seed < 1200; ++seed) {
    RandomCase c = rich_case(seed, {.most_elements = 600});
    SCOPED_TRACE(c.text());
    expect_counted(c, &with_fills);
    if (HasFailure()) return;
  }
  EXPECT_GT(with_fills, 500);
}

// Nodes as a batch system may deal ranks out to them.
TEST(NodeShare, IsCountedForAnyMapOfNodes) {
  int with_fills = 0;
  Random random(9);
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    RandomCase c = rich_case(seed, {.most_elements = 600});
    SCOPED_TRACE(c.text());
    std::vector<std::uint32_t> node_of;
    const std::uint64_t nodes = 1 + random.below(4);
    for (std::uint64_t r = 0; r < c.ranks(); ++r)
      node_of.push_back(static_cast<std::uint32_t>(seed % 2 ? r % nodes : random.below(nodes)));
    c.params.nodes = NodeMap(node_of);
    expect_counted(c, &with_fills);
    if (HasFailure()) return;
  }
  EXPECT_GT(with_fills, 150);
}

}  // namespace
}  // namespace slabload
