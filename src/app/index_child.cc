#include "app/index_child.h"

#include <cstring>

#include "backend/hdf5/index.h"
#include "backend/host/child.h"
#include "base/error.h"

namespace slabload {
namespace {

constexpr const char* kRequest = "--read-index";  // PATH, "trust" or "prove", then what host::answer takes

bool program_is_ours = false;

std::string read_to_bytes(const std::string& path, bool trust) {
  return to_bytes(read_hdf5_index(path, trust));
}

}  // namespace

TensorIndex read_hdf5_index_apart(const std::string& path, const IndexReading& reading) {
  if (path.find('\0') != std::string::npos) return read_hdf5_index(path, reading.trust);  // refused at once
  const std::string about = fmt::format("file '{}': reading its structure", printable(path));
  host::ChildLimits limits;
  limits.timeout_s = 0.8 * reading.timeout_s;
  std::string bytes =
      program_is_ours
          ? host::from_new_process({kRequest, path, reading.trust ? "trust" : "prove"}, limits, about)
          : host::from_copy([&] { return read_to_bytes(path, reading.trust); }, limits, about);
  return index_from_bytes(bytes);
}

void serve_index_child(int argc, char** argv) {
  program_is_ours = true;
  if (argc != 6 || std::strcmp(argv[1], kRequest) != 0) return;
  host::answer(argv[4], argv[5], [&] { return read_to_bytes(argv[2], std::strcmp(argv[3], "trust") == 0); });
}

}  // namespace slabload
