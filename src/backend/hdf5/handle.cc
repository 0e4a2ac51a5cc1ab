#include "backend/hdf5/handle.h"

#include <atomic>

namespace slabload::hdf5 {

namespace {
std::atomic<bool> g_left_open{false};
}

void note_unclosed() {
  g_left_open = true;
}

bool left_open() {
  return g_left_open;
}

QuietErrors::QuietErrors() {
  H5Eget_auto2(H5E_DEFAULT, &function_, &data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

QuietErrors::~QuietErrors() {
  H5Eset_auto2(H5E_DEFAULT, function_, data_);
}

std::vector<std::string> error_stack() {
  std::vector<std::string> out;
  auto visit = [](unsigned, const H5E_error2_t* entry, void* data) -> herr_t {
    if (entry->desc != nullptr && entry->desc[0] != '\0') {
      static_cast<std::vector<std::string>*>(data)->push_back(printable(entry->desc));
    }
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, visit, &out);
  return out;
}

std::string innermost_error() {
  std::vector<std::string> stack = error_stack();
  return stack.empty() ? "no reason given" : stack.front();
}

std::string text(const Where& where) {
  std::string out = fmt::format("file '{}'", printable(where.file));
  if (!where.object.empty()) out += fmt::format(": object '{}'", printable(where.object));
  return out;
}

void fail_call(const char* call, const Where& where) {
  fail(Status::file, "{}: {} failed: {}", text(where), call, innermost_error());
}

void close_file(FileHandle& file, const Where& where) {
  if (H5Fclose(file.release()) >= 0) return;
  note_unclosed();
  fail_call("H5Fclose", where);
}

}  // namespace slabload::hdf5
