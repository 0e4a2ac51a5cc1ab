#include "backend/host/temporary_file.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

namespace slabload::host {
namespace {

constexpr int kMostNames = 100;

}  // namespace

TemporaryFile::TemporaryFile(const std::string& target) {
  const std::filesystem::path path(target);
  for (int i = 0;; ++i) {
    path_ = path.parent_path() / fmt::format(".{}.{}-{}.tmp", path.filename().string(), ::getpid(), i);
    struct stat s;
    const bool taken = ::lstat(path_.c_str(), &s) == 0;
    if (taken && i + 1 < kMostNames) continue;  // what a killed run with our process number left
    file_ = File::create_new(path_, target);
    return;
  }
}

TemporaryFile::~TemporaryFile() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

void TemporaryFile::publish(const std::string& target, bool replace) {
  file_.sync();
  file_.close();
  host::publish(path_, target, replace);
  path_.clear();
}

}  // namespace slabload::host
