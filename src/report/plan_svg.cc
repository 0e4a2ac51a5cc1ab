#include "report/plan_svg.h"

#include <algorithm>
#include <cmath>

#include "base/bytes.h"
#include "base/error.h"
#include "base/narrow.h"
#include "plan/plan_tensor.h"

namespace slabload {
namespace {

constexpr std::size_t kColumns = 1000;
constexpr std::size_t kMostRows = 1024;
constexpr double kLeft = 90, kTop = 78, kRight = 90, kBottom = 84;
constexpr int kShades = 5;  // a bar is the darker the more of its stretch is moved
// Rows lower than this have no room for two bars: what is read lies over what is received.
constexpr double kTwoBars = 6;
// A bar lower than this shows nothing: with less room than that for each, what is received in different ways shares one.
constexpr double kLeastBar = 4;
// More runs than this are drawn as spread evenly from the first to the last.
constexpr std::uint64_t kMostRuns = 256;

struct Style {
  const char* name;
  const char* color;
};
constexpr Style kStyles[] = {{"read from the file", "#1f5fa8"},
                             {"received by all-gather", "#d9822b"},
                             {"received by broadcast", "#2f8f4e"},
                             {"received by message", "#b03a6f"}};

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : printable(text)) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      out += c;
    }
  }
  return out;
}

std::string label(double x, double y, const char* anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, text);
}

// The smallest step of at least `least` that falls on the ends of units: a divisor of one, or 1, 2, 4, ... of them.
std::uint64_t step_of(std::uint64_t least, std::uint64_t unit) {
  for (std::uint64_t step = least; step < unit; ++step) {
    if (unit % step == 0) return step;
  }
  std::uint64_t step = unit;
  while (step < least) step *= 2;
  return step;
}

// The end of a text that is longer than the picture is wide; that of a path tells more than its beginning.
std::string shortened(const std::string& text, std::size_t most) {
  if (text.size() <= most) return text;
  std::string_view end = std::string_view(text).substr(text.size() - most + 3);
  while (!end.empty() && (end.front() & 0xc0) == 0x80) end.remove_prefix(1);  // not amid a character
  return "..." + std::string(end);
}

}  // namespace

PlanSvg::PlanSvg(const TensorIndex& index, std::uint64_t ranks, std::uint64_t ranks_per_node, std::string title,
                 std::string subtitle)
    : index_(index),
      ranks_(ranks),
      ranks_per_node_(std::min(ranks_per_node, ranks)),
      title_(std::move(title)),
      subtitle_(std::move(subtitle)) {
  ranks_per_row_ = step_of(ceil_div(ranks, kMostRows), ranks_per_node_);
  if (ranks <= kMostRows) ranks_per_row_ = 1;
  rows_ = ceil_div(ranks, ranks_per_row_);
  row_height_ = std::clamp(640.0 / static_cast<double>(rows_), 1.5, 48.0);
  for (const TensorMeta& tensor : index.tensors) {
    begin_.push_back(bytes_);
    bytes_ += tensor.bytes();
  }
  for (auto& grid : grid_) grid.assign(rows_ * kColumns, 0);
}

void PlanSvg::mark_bytes(Kind kind, std::size_t row, double begin, double end, double bytes) {
  const double column = static_cast<double>(bytes_) / kColumns;
  const auto first = std::min(kColumns - 1, static_cast<std::size_t>(begin / column));
  const auto last = std::min(kColumns - 1, static_cast<std::size_t>(std::max(begin, end - 1) / column));
  for (std::size_t c = first; c <= last; ++c) {
    const double from = std::max(begin, static_cast<double>(c) * column);
    const double to = std::min(end, static_cast<double>(c + 1) * column);
    const double share = end > begin ? std::max(0.0, to - from) / (end - begin) : 1;
    grid_[kind][row * kColumns + c] += static_cast<float>(bytes * share);
  }
  total_[kind] += bytes;
}

void PlanSvg::mark(Kind kind, std::size_t row, std::uint32_t t, const Box& box) {
  const TensorMeta& tensor = index_.tensors[t];
  const auto size = static_cast<double>(dtype_size(tensor.dtype));
  const auto before = static_cast<double>(begin_[t]);
  if (box.empty()) return;
  if (runs_of(tensor.shape, box).count <= kMostRuns) {
    for_each_run(tensor.shape, box, [&](std::uint64_t begin, std::uint64_t length) {
      const double at = before + static_cast<double>(begin) * size;
      mark_bytes(kind, row, at, at + static_cast<double>(length) * size, static_cast<double>(length) * size);
    });
    return;
  }
  Dims last = box.start;
  for (std::size_t d = 0; d < last.size(); ++d) last[d] += box.extent[d] - 1;
  const double begin = before + static_cast<double>(flat_index(tensor.shape, box.start)) * size;
  const double end = before + static_cast<double>(flat_index(tensor.shape, last) + 1) * size;
  mark_bytes(kind, row, begin, end, static_cast<double>(box.elements()) * size);
}

void PlanSvg::add(const LoadPlan& plan) {
  if (bytes_ == 0) return;
  const std::size_t row = plan.rank / ranks_per_row_;
  for (const Round& round : plan.rounds) {
    for (const ReadItem& read : round.reads) mark(kRead, row, read.tensor, read.box);
    for (const FillItem& fill : round.fills) {
      const std::uint64_t size = dtype_size(plan.dtypes[fill.tensor]);
      if (fill.kind == FillItem::Kind::send) continue;
      if (fill.kind == FillItem::Kind::receive) {
        mark(kMessage, row, fill.tensor, fill.box);
        continue;
      }
      const std::uint64_t self = plan.groups[fill.group].find(plan.rank).value();
      if (fill.kind == FillItem::Kind::all_gather) {
        const std::uint64_t length = fill.range.size();
        const std::uint64_t begin = fill.range.begin + std::min(length, self * fill.part / size);
        const std::uint64_t end = fill.range.begin + std::min(length, (self + 1) * fill.part / size);
        for (const FlatRange& range : {FlatRange{fill.range.begin, begin}, FlatRange{end, fill.range.end}}) {
          for (const Box& box : shard_boxes(plan.shards[fill.tensor], range)) mark(kGather, row, fill.tensor, box);
        }
        continue;
      }
      if (self == fill.peer) continue;
      if (fill.at.space == Space::shard) {
        for (const Box& box : shard_boxes(plan.shards[fill.tensor], fill.range))
          mark(kBroadcast, row, fill.tensor, box);
        continue;
      }
      if (round.spread.empty()) {
        for (const Box& box : flat_boxes(index_.tensors[fill.tensor].shape, fill.range))
          mark(kBroadcast, row, fill.tensor, box);
      }
      for (const StagedPart& part : round.spread) {
        const std::uint64_t element = dtype_size(plan.dtypes[part.tensor]);
        const std::uint64_t end = part.offset + part.range.size() * element;
        const std::uint64_t from = std::max(part.offset, fill.at.offset);
        const std::uint64_t to = std::min(end, fill.at.offset + fill.bytes);
        if (from >= to) continue;
        const FlatRange range{(from - part.offset) / element, (to - part.offset) / element};
        for (const Box& box : flat_boxes(index_.tensors[part.tensor].shape, range))
          mark(kBroadcast, row, part.tensor, box);
      }
    }
  }
}

// In the order in which they are painted: reads on top, and of what is received the most below the rest.
std::vector<PlanSvg::Bar> PlanSvg::bars_of_a_row() const {
  std::vector<Bar> out;
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    if (kind != kRead && total_[kind] > 0) out.push_back({static_cast<Kind>(kind), 0, 0});
  }
  const bool two_bars = row_height_ >= kTwoBars;
  const double top = two_bars ? 0.48 * row_height_ : 0;
  const double room = (two_bars ? 0.46 : 1) * row_height_ / static_cast<double>(std::max<std::size_t>(1, out.size()));
  const bool own_bars = two_bars && room >= kLeastBar;
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i].height = own_bars ? 0.9 * room : (two_bars ? 0.46 : 1) * row_height_;
    out[i].middle = top + (own_bars ? (static_cast<double>(i) + 0.5) * room : out[i].height / 2);
  }
  std::stable_sort(out.begin(), out.end(), [&](const Bar& a, const Bar& b) { return total_[a.kind] > total_[b.kind]; });
  const double height = (two_bars ? 0.42 : 1) * row_height_;
  out.push_back({kRead, two_bars ? 0.25 * row_height_ : height / 2, height});
  return out;
}

// One path per shade: a row's neighbouring columns of one shade are one stroke.
std::string PlanSvg::strokes(const Bar& bar) const {
  const std::vector<float>& grid = grid_[bar.kind];
  // One scale for all kinds: a stretch that is moved whole by every rank of the row is darkest.
  const double most = static_cast<double>(bytes_) / kColumns * static_cast<double>(std::min(ranks_per_row_, ranks_));
  const bool two_bars = row_height_ >= kTwoBars;
  // A mark of one low row and one column would not be seen.
  const std::size_t least = two_bars ? 1 : 2;
  const double lightest = bar.kind == kRead && !two_bars ? 0.6 : 0.25;
  const double darkest = bar.kind == kRead || two_bars ? 1 : 0.65;
  std::array<std::string, kShades> paths;
  for (std::size_t row = 0; row < rows_; ++row) {
    const double y = kTop + static_cast<double>(row) * row_height_ + bar.middle;
    for (std::size_t c = 0; c < kColumns;) {
      auto shade_of = [&](std::size_t at) {
        const double share = std::min(1.0, static_cast<double>(grid[row * kColumns + at]) / most);
        return static_cast<int>(std::ceil(kShades * std::sqrt(share)));
      };
      const int shade = shade_of(c);
      std::size_t end = c + 1;
      while (end < kColumns && shade_of(end) == shade) ++end;
      if (shade > 0)
        paths.at(static_cast<std::size_t>(std::min(shade, kShades) - 1)) +=
            fmt::format("M{:.0f} {:.2f}h{}", kLeft + static_cast<double>(c), y, std::max(least, end - c));
      c = end;
    }
  }
  std::string out;
  for (int s = 0; s < kShades; ++s) {
    if (paths[static_cast<std::size_t>(s)].empty()) continue;
    out += fmt::format("<path d=\"{}\" stroke=\"{}\" stroke-opacity=\"{:.2f}\" stroke-width=\"{:.2f}\"/>\n",
                       paths[static_cast<std::size_t>(s)], kStyles[bar.kind].color,
                       lightest + (darkest - lightest) * s / (kShades - 1), bar.height);
  }
  return out;
}

// About twenty numbers, at the beginnings of nodes.
std::string PlanSvg::rank_labels() const {
  const bool rows_in_nodes = ranks_per_node_ % ranks_per_row_ == 0;
  const std::uint64_t every = step_of(ceil_div(rows_, 20), rows_in_nodes ? ranks_per_node_ / ranks_per_row_ : 1);
  std::string out;
  for (std::uint64_t row = 0; row < rows_; row += every) {
    const double y = kTop + row_height_ * static_cast<double>(row);
    // In the middle of its row; of low rows the number stands at the line where they begin.
    const double down = row_height_ >= 12 ? row_height_ / 2 + 4 : 4;
    out += label(kLeft - 8, y + down, "end", fmt::format("{}", row * ranks_per_row_));
    out += fmt::format("<path d=\"M{:.0f} {:.2f}h{}\" stroke=\"#ddd\" stroke-width=\"0.5\"/>\n", kLeft, y, kColumns);
  }
  return out;
}

// A line where a node begins, over the bars, and its number at the right; as many as there is room for.
std::string PlanSvg::node_marks() const {
  if (ranks_per_node_ <= 1) return {};
  constexpr double kLeastLine = 4, kLeastLabel = 16;  // pixels from one to the next
  const double height = row_height_ * static_cast<double>(ranks_per_node_) / static_cast<double>(ranks_per_row_);
  const std::uint64_t nodes = ceil_div(ranks_, ranks_per_node_);
  auto every = [&](double least) { return step_of(static_cast<std::uint64_t>(std::ceil(least / height)), 1); };
  const std::uint64_t lines = every(kLeastLine), labels = every(kLeastLabel);
  std::string out;
  for (std::uint64_t node = 0; node < nodes; ++node) {
    const double y = kTop + height * static_cast<double>(node);
    const double x = kLeft + kColumns;
    if (node % lines == 0 && node != 0)
      out += fmt::format("<path d=\"M{:.0f} {:.2f}h{:.0f}\" stroke=\"#555\" stroke-width=\"0.6\"/>\n", kLeft, y,
                         x - kLeft + 6);
    if (node % labels != 0) continue;
    const double shown = static_cast<double>(std::min(ranks_, (node + 1) * ranks_per_node_) - node * ranks_per_node_) *
                         row_height_ / static_cast<double>(ranks_per_row_);
    // In the middle of its node, or at the line where it begins.
    out += label(x + 10, y + (labels == 1 ? shown / 2 + 4 : 4), "start", fmt::format("node {}", node));
  }
  return out;
}

std::string PlanSvg::text() const {
  const double width = kLeft + kColumns + kRight;
  const double bottom = kTop + row_height_ * static_cast<double>(rows_);
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n<rect width=\"100%\" height=\"100%\" "
      "fill=\"#fff\"/>\n",
      width, bottom + kBottom);
  out += fmt::format("<text x=\"{:.0f}\" y=\"24\" font-size=\"16\">{}</text>\n", kLeft, escaped(shortened(title_, 115)));
  out += label(kLeft, 44, "start", escaped(shortened(subtitle_, 160)));
  out += label(kLeft, 66, "start",
               fmt::format("a row for {}: {}; the darker, the more of the stretch is moved",
                           ranks_per_row_ == 1 ? "each rank" : fmt::format("every {} ranks", ranks_per_row_),
                           row_height_ >= kTwoBars ? "above what is read, below what is received"
                                                   : "what is read, over what is received"));
  out += rank_labels();
  out += fmt::format("<text x=\"20\" y=\"{0:.0f}\" transform=\"rotate(-90 20 {0:.0f})\" text-anchor=\"middle\">rank</text>\n",
                     (kTop + bottom) / 2);
  out += "<g fill=\"none\">\n";
  for (const Bar& bar : bars_of_a_row()) out += strokes(bar);
  out += "</g>\n" + node_marks();
  out += fmt::format("<path d=\"M{:.0f} {:.1f}v{:.1f}h{}\" fill=\"none\" stroke=\"#222\"/>\n", kLeft, kTop, bottom - kTop,
                     kColumns);
  for (int tick = 0; tick <= 5; ++tick) {
    const double x = kLeft + kColumns * tick / 5.0;
    out += fmt::format("<path d=\"M{:.0f} {:.1f}v5\" stroke=\"#222\"/>\n", x, bottom);
    out += label(x, bottom + 18, "middle", format_bytes(bytes_ / 5 * static_cast<std::uint64_t>(tick)));
  }
  out += label(kLeft + kColumns / 2.0, bottom + 36, "middle",
               fmt::format("file offset, without headers and what is not selected ({} tensors)", index_.tensors.size()));
  double x = kLeft;
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    if (total_[kind] <= 0) continue;
    out += fmt::format("<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"14\" height=\"10\" fill=\"{}\"/>\n", x, bottom + 56,
                       kStyles[kind].color);
    out += label(x + 20, bottom + 66, "start",
                 fmt::format("{}: {}", kStyles[kind].name, format_bytes(static_cast<std::uint64_t>(total_[kind]))));
    x += 250;
  }
  return out + "</svg>\n";
}

}  // namespace slabload
