// slabload verify
#include <algorithm>
#include <unordered_map>

#include "app/scan_job.h"
#include "base/version.h"
#include "cli/verbs.h"

namespace slabload {
namespace {

std::string header(Session& session, const RunOptions& options) {
  return fmt::format("# slabload {} verify\n# checkpoint {}\n# ranks {}\n", kVersion,
                     printable(options.checkpoint), session.ranks());
}

std::string rate(const Scan& scan) {
  return fmt::format("# read {} bytes in {:.3f} s ({:.2f} GB/s), {}\n", scan.bytes, scan.seconds,
                     scan.seconds > 0 ? static_cast<double>(scan.bytes) / scan.seconds / 1e9 : 0, scan.io);
}

Status check_stored(Session& session, const RunOptions& options, Watchdog& watchdog) {
  Scan scan = scan_checkpoint(session, options.checkpoint, options, watchdog);
  std::string out = header(session, options) + rate(scan);
  for (const Mismatch& m : scan.result.wrong) {
    out += fmt::format("wrong: {} has CRC-64 {:016x}, expected {:016x}\n",
                       printable(scan.index.tensors[m.tensor].name), m.found, m.expected);
  }
  out += fmt::format("# tensors verified {}, unverified {}{}\n", scan.result.verified, scan.result.unverified,
                     scan.result.unverified == 0 ? "" : " (no checksum is stored for them)");
  out += fmt::format("# wrong {}\n", scan.result.wrong.size());
  if (session.is_root()) print(out);
  if (scan.result.wrong.empty()) return Status::ok;
  fail_agreed(Status::wrong_data,
              fmt::format("{}: {} of {} tensors are not what their checksums say, the first is {}",
                          options.checkpoint, scan.result.wrong.size(), scan.index.tensors.size(),
                          printable(scan.index.tensors[scan.result.wrong.front().tensor].name)));
}

// Names, dtypes, shapes, and the checksums of the elements, made anew on both sides.
Status compare(Session& session, const RunOptions& options, Watchdog& watchdog) {
  Scan a = scan_checkpoint(session, options.checkpoint, options, watchdog);
  Scan b = scan_checkpoint(session, options.against, options, watchdog);
  std::unordered_map<std::string, std::size_t> there;
  for (std::size_t t = 0; t < b.index.tensors.size(); ++t) {
    there[b.index.tensors[t].name] = t;
    for (const std::string& alias : b.index.tensors[t].aliases) there.try_emplace(alias, t);
  }
  std::vector<std::string> lines;
  std::vector<bool> used(b.index.tensors.size(), false);
  std::uint64_t equal = 0;
  for (std::size_t t = 0; t < a.index.tensors.size(); ++t) {
    const TensorMeta& mine = a.index.tensors[t];
    auto found = there.find(mine.name);
    for (std::size_t i = 0; found == there.end() && i < mine.aliases.size(); ++i)
      found = there.find(mine.aliases[i]);
    if (found == there.end()) {
      lines.push_back(fmt::format("only in the first: {}", printable(mine.name)));
      continue;
    }
    used[found->second] = true;
    const TensorMeta& other = b.index.tensors[found->second];
    if (mine.dtype != other.dtype || !(mine.shape == other.shape)) {
      lines.push_back(fmt::format("different: {} is {} {} and {} {}", printable(mine.name),
                                  dtype_name(mine.dtype), mine.shape.text(), dtype_name(other.dtype),
                                  other.shape.text()));
    } else if (a.result.crc64[t] != b.result.crc64[found->second]) {
      lines.push_back(fmt::format("different: {} has other values (CRC-64 {:016x} and {:016x})",
                                  printable(mine.name), a.result.crc64[t], b.result.crc64[found->second]));
    } else {
      ++equal;
    }
  }
  for (std::size_t t = 0; t < used.size(); ++t) {
    if (!used[t]) lines.push_back(fmt::format("only in the second: {}", printable(b.index.tensors[t].name)));
  }
  // Both sides may be damaged alike: what their own checksums say counts as well.
  std::size_t damaged = a.result.wrong.size() + b.result.wrong.size();
  std::string out = header(session, options) + fmt::format("# against {}\n", printable(options.against)) +
                    rate(a) + rate(b);
  for (const std::string& line : lines) out += line + "\n";
  out += fmt::format("# tensors equal {}, different {}\n# against their own checksums wrong {}\n", equal,
                     lines.size(), damaged);
  if (session.is_root()) print(out);
  if (lines.empty() && damaged == 0) return Status::ok;
  fail_agreed(Status::wrong_data,
              lines.empty()
                  ? fmt::format("{} and {} are equal, but {} tensors are not what their checksums say",
                                options.checkpoint, options.against, damaged)
                  : fmt::format("{} and {} differ in {} tensors: {}", options.checkpoint, options.against,
                                lines.size(), lines.front()));
}

}  // namespace

Status run_verify(Session& session, const RunOptions& options) {
  auto watchdog = session.watch(options.timeout_s, "verify");
  return options.against.empty() ? check_stored(session, options, *watchdog)
                                 : compare(session, options, *watchdog);
}

}  // namespace slabload
