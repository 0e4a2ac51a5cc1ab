#include "app/write_report.h"

#include "backend/host/device.h"
#include "base/bytes.h"
#include "base/version.h"

namespace slabload {

WriteReport::WriteReport(Session& session, std::string verb, std::string source, std::string target)
    : session_(session), verb_(std::move(verb)), source_(std::move(source)), target_(std::move(target)) {}

std::string WriteReport::finish(const TensorIndex& index, const TransferResult& result, bool stored) {
  double total = watch_.seconds();
  std::uint64_t most[] = {result.bytes, host::peak_resident_bytes()};
  std::uint64_t all = result.bytes;
  session_.control().max(most);
  session_.control().sum({&all, 1});
  std::string out = fmt::format("# slabload {} {}\n# from {}\n# to   {}\n# ranks {}\n", kVersion, verb_,
                                printable(source_), printable(target_), session_.ranks());
  if (!index.skipped.empty()) {
    out += fmt::format(
        "# {} objects can't be tensors and were left out (the first: {}, {}); inspect lists them\n",
        index.skipped.size(), printable(index.skipped.front().name), index.skipped.front().reason);
  }
  out += fmt::format("# tensors {}  bytes {}  largest rank {}\n", index.tensors.size(), all, most[0]);
  out += fmt::format(
      "# time {:.3f} s ({:.2f} GB/s)  rank 0: make {:.3f} s, checksum {:.3f} s, write {:.3f} s, commit "
      "{:.3f} s\n",
      total, total > 0 ? static_cast<double>(all) / total / 1e9 : 0, result.make_s, result.checksum_s,
      result.write_s, result.commit_s);
  out += fmt::format("# peak memory of the largest rank {}\n", format_bytes(most[1]));
  out += stored ? fmt::format("# checksums stored {}\n", result.crc64.size())
                : fmt::format("# checksums of the source compared {} of {}\n", result.tensors_checked,
                              result.crc64.size());
  return out;
}

}  // namespace slabload
