// A new file beside its target, which gets the target's name when it is whole.
#pragma once

#include <string>

#include "backend/host/file.h"

namespace slabload::host {

// Neither copied nor moved. Removed with the object unless it was published.
class TemporaryFile {
 public:
  // Creates `.NAME.PID-N.tmp` in the target's folder, exclusively and with the user's umask. Throws Status::file, by the
  // target's name.
  explicit TemporaryFile(const std::string& target);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  File& file() { return file_; }
  // Puts the file on the disk and gives it the name `target`, in the same folder. Throws Status::file, also if there is one of
  // that name and `replace` is false.
  void publish(const std::string& target, bool replace);

 private:
  std::string path_;
  File file_;
};

}  // namespace slabload::host
