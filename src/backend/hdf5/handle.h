// HDF5 ids that close themselves, and HDF5 calls whose failure becomes an Error of one line.
#pragma once

#ifndef H5_USE_110_API
#define H5_USE_110_API  // newer libraries then offer the 1.10 names and structures used here
#endif
#include <hdf5.h>

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"

namespace slabload::hdf5 {

// What could not be closed (a full disk) is still open to the library, which crashes on it when the process ends in order
// (1.10.8, from MPI_Finalize). note_unclosed() is for such a failure; left_open() tells whether there was one in this process.
void note_unclosed();
bool left_open();

// Owns one id and closes it with the call of its kind. Move-only.
template <herr_t (*Close)(hid_t)>
class Handle {
 public:
  Handle() = default;
  explicit Handle(hid_t id) : id_(id) {}
  ~Handle() { reset(); }
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)) {}
  Handle& operator=(Handle&& other) noexcept {
    if (this != &other) {
      reset();
      id_ = std::exchange(other.id_, H5I_INVALID_HID);
    }
    return *this;
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  hid_t get() const { return id_; }
  explicit operator bool() const { return id_ >= 0; }
  // Gives the id up, for a caller that checks the result of closing it.
  hid_t release() { return std::exchange(id_, H5I_INVALID_HID); }
  void reset() {
    if (id_ >= 0 && Close(id_) < 0) note_unclosed();
    id_ = H5I_INVALID_HID;
  }

 private:
  hid_t id_ = H5I_INVALID_HID;
};

using FileHandle = Handle<H5Fclose>;
using GroupHandle = Handle<H5Gclose>;
using ObjectHandle = Handle<H5Oclose>;
using DatasetHandle = Handle<H5Dclose>;
using SpaceHandle = Handle<H5Sclose>;
using TypeHandle = Handle<H5Tclose>;
using AttributeHandle = Handle<H5Aclose>;
using PropertyHandle = Handle<H5Pclose>;

// While it lives HDF5 prints no error stacks of its own; restores what was set before.
class QuietErrors {
 public:
  QuietErrors();
  ~QuietErrors();
  QuietErrors(const QuietErrors&) = delete;
  QuietErrors& operator=(const QuietErrors&) = delete;

 private:
  H5E_auto2_t function_ = nullptr;
  void* data_ = nullptr;
};

// The descriptions on HDF5's error stack, innermost (the cause) first.
std::vector<std::string> error_stack();
// The innermost one; "no reason given" if the stack is empty.
std::string innermost_error();

// What a call was about: a file and, if it is about one, an object in it. Refers to strings of the caller.
struct Where {
  std::string_view file;
  std::string_view object = {};
};

// "file 'F': object 'O'", printable.
std::string text(const Where& where);

// Throws Status::file: the place, the call that failed and HDF5's reason.
[[noreturn]] void fail_call(const char* call, const Where& where);

// Returns the result of an HDF5 call; throws if it is negative.
template <typename Result>
Result check(Result result, const char* call, const Where& where) {
  static_assert(std::is_signed_v<Result> || std::is_enum_v<Result>);
  if (static_cast<long long>(result) < 0) fail_call(call, where);
  return result;
}

// Closes a file that was written to: what is left is written now, so the result counts. Throws Status::file; the handle is empty
// either way. Collective for a file that was opened so.
void close_file(FileHandle& file, const Where& where);

}  // namespace slabload::hdf5

// SLABLOAD_HDF5(where, H5Dopen2, file, path, dapl) calls, checks and returns the result.
#define SLABLOAD_HDF5(where, function, ...) ::slabload::hdf5::check(function(__VA_ARGS__), #function, where)
