#include "report/timeline_report.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "report/json_text.h"

namespace slabload {
namespace {

constexpr std::size_t kPiece = 64 << 10;
constexpr std::size_t kRows = kPhaseCount - 1;
constexpr const char* kRowNames[kRows] = {"open, plan", "read", "copy", "fill", "verify", "write"};

std::size_t row_of(Phase phase) {
  return phase == Phase::open ? 0 : static_cast<std::size_t>(phase) - 1;
}

std::string as_json(std::string_view text) {
  return Json(json_text(text)).dump();
}

// Microseconds with three decimals.
std::string micros(std::int64_t ns) {
  return fmt::format("{}.{:03}", ns / 1000, ns % 1000);
}

// A span in nanoseconds of the file's time: rounded once, so that what touches does not overlap.
struct Event {
  std::int64_t begin_ns, end_ns;
  const TimelineSpan* span;
};

// Rows of the viewer hold no overlapping events, so each goes to the first row of its phase that is free.
std::vector<std::vector<Event>> lanes_of(std::vector<Event> events) {
  std::sort(events.begin(), events.end(),
            [](const Event& a, const Event& b) { return a.begin_ns < b.begin_ns; });
  std::vector<std::vector<Event>> lanes;
  for (const Event& event : events) {
    auto free = std::find_if(lanes.begin(), lanes.end(),
                             [&](const auto& lane) { return lane.back().end_ns <= event.begin_ns; });
    if (free == lanes.end()) free = lanes.emplace(lanes.end());
    free->push_back(event);
  }
  return lanes;
}

class Writer {
 public:
  Writer(const TensorIndex& index, const WritePiece& write) : index_(index), write_(write) {}

  void rank(std::size_t number, const RankTimeline& rank, double earliest_s) {
    about("process_name", number, 0, "name", as_json(fmt::format("rank {} {}", number, rank.host)));
    about("process_sort_index", number, 0, "sort_index", fmt::format("{}", number));
    std::vector<Event> rows[kRows];
    auto ns = [&](double at_s) { return std::llround((at_s - rank.origin_s - earliest_s) * 1e9); };
    for (const TimelineSpan& span : rank.timeline.spans())
      rows[row_of(span.phase)].push_back({ns(span.begin_s), ns(span.end_s), &span});
    std::size_t thread = 0;
    for (std::size_t row = 0; row < kRows; ++row) {
      std::vector<std::vector<Event>> lanes = lanes_of(std::move(rows[row]));
      for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
        ++thread;
        std::string name = lane == 0 ? kRowNames[row] : fmt::format("{} {}", kRowNames[row], lane + 1);
        about("thread_name", number, thread, "name", as_json(name));
        about("thread_sort_index", number, thread, "sort_index", fmt::format("{}", thread));
        for (const Event& event : lanes[lane]) complete(number, thread, event);
      }
    }
  }

  void finish() {
    out_ += "\n]}\n";
    write_(out_);
  }

 private:
  void about(const char* what, std::size_t process, std::size_t thread, const char* key,
             const std::string& value) {
    put(fmt::format(R"({{"name":"{}","ph":"M","pid":{},"tid":{},"args":{{"{}":{}}}}})", what, process, thread,
                    key, value));
  }

  void complete(std::size_t process, std::size_t thread, const Event& event) {
    const TimelineSpan& span = *event.span;
    std::string_view phase = phase_name(span.phase);
    std::string name = fmt::format("\"{}\"", phase), tensor;
    if (span.tensor != kNoTensor) {
      if (span.tensor >= index_.tensors.size())
        fail(Status::internal, "a timeline names tensor {}", span.tensor);
      name = as_json(index_.tensors[span.tensor].name);
      tensor = "\"tensor\":" + name + ",";
    }
    put(fmt::format(
        R"({{"name":{},"cat":"{}","ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"args":{{{}"bytes":{}}}}})",
        name, phase, process, thread, micros(event.begin_ns), micros(event.end_ns - event.begin_ns), tensor,
        span.bytes));
  }

  void put(const std::string& event) {
    out_ += separator_ + event;
    separator_ = ",\n";
    if (out_.size() < kPiece) return;
    write_(out_);
    out_.clear();
  }

  const TensorIndex& index_;
  const WritePiece& write_;
  std::string out_ = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  const char* separator_ = "\n";
};

}  // namespace

std::string to_bytes(const RankTimeline& rank) {
  std::uint64_t length = rank.host.size();
  std::string out(reinterpret_cast<const char*>(&rank.origin_s), sizeof rank.origin_s);
  out.append(reinterpret_cast<const char*>(&length), sizeof length);
  return out + rank.host + rank.timeline.to_bytes();
}

RankTimeline rank_timeline_from_bytes(std::string_view bytes) {
  RankTimeline rank;
  std::uint64_t length = 0;
  constexpr std::size_t head = sizeof rank.origin_s + sizeof length;
  if (bytes.size() >= head) {
    std::memcpy(&rank.origin_s, bytes.data(), sizeof rank.origin_s);
    std::memcpy(&length, bytes.data() + sizeof rank.origin_s, sizeof length);
  }
  if (bytes.size() < head || length > bytes.size() - head || !std::isfinite(rank.origin_s))
    fail(Status::internal, "a timeline sent by another rank is damaged");
  rank.host = bytes.substr(head, length);
  rank.timeline = Timeline::from_bytes(bytes.substr(head + length));
  return rank;
}

std::size_t spans_to_send(std::size_t ranks) {
  return std::clamp<std::size_t>((std::size_t{1} << 20) / std::max<std::size_t>(1, ranks), 64,
                                 Timeline::kMostSpans);
}

void write_timeline(const std::vector<RankTimeline>& ranks, const TensorIndex& index,
                    const WritePiece& write) {
  double earliest_s = std::numeric_limits<double>::infinity();
  for (const RankTimeline& rank : ranks) {
    for (const TimelineSpan& span : rank.timeline.spans())
      earliest_s = std::min(earliest_s, span.begin_s - rank.origin_s);
  }
  Writer writer(index, write);
  for (std::size_t r = 0; r < ranks.size(); ++r) writer.rank(r, ranks[r], earliest_s);
  writer.finish();
}

std::string timeline_json(const std::vector<RankTimeline>& ranks, const TensorIndex& index) {
  std::string out;
  write_timeline(ranks, index, [&](std::string_view piece) { out += piece; });
  return out;
}

}  // namespace slabload
