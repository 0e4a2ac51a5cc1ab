#include "backend/hdf5/mpio.h"

#include <cstdlib>

#include "backend/hdf5/open_file.h"
#include "backend/mpi/call.h"
#include "base/narrow.h"

namespace slabload::hdf5 {
namespace {

class Info {
 public:
  Info() { SLABLOAD_MPI(MPI_Info_create, &info_); }
  explicit Info(MPI_Info info) : info_(info) {}
  ~Info() {
    if (info_ != MPI_INFO_NULL) MPI_Info_free(&info_);
  }
  Info(const Info&) = delete;
  Info& operator=(const Info&) = delete;
  MPI_Info get() const { return info_; }

 private:
  MPI_Info info_ = MPI_INFO_NULL;
};

// Open MPI's choice of MPI-IO component, which mpi::prefer_romio has put there if nobody else did. (Asking
// MPI_T instead would load every component of the library: a quarter of a second.)
std::string open_mpi_choice() {
  const char* chosen = std::getenv("OMPI_MCA_io");
  return chosen == nullptr ? "" : chosen;
}

// ROMIO answers with its own hints (not below Open MPI 4, which answers with the user's).
bool has_romio_hints(hid_t file) {
  void* handle = nullptr;
  if (H5Fget_vfd_handle(file, H5P_DEFAULT, &handle) < 0 || handle == nullptr) return false;
  MPI_Info raw = MPI_INFO_NULL;
  if (MPI_File_get_info(*static_cast<MPI_File*>(handle), &raw) != MPI_SUCCESS || raw == MPI_INFO_NULL)
    return false;
  Info info(raw);
  // A hint that ROMIO sets in every file, whatever the user asked for.
  int there = 0;
  char value[MPI_MAX_INFO_VAL + 1] = {};
  SLABLOAD_MPI(MPI_Info_get, info.get(), "romio_no_indep_rw", MPI_MAX_INFO_VAL, value, &there);
  return there != 0;
}

}  // namespace

FileHandle open_mpio(const std::string& path, MPI_Comm comm,
                     const std::vector<std::pair<std::string, std::string>>& hints, MpioAccess access) {
  Where where{path};
  Info info;
  for (const auto& [key, value] : hints) SLABLOAD_MPI(MPI_Info_set, info.get(), key.c_str(), value.c_str());
  PropertyHandle fapl(SLABLOAD_HDF5(where, H5Pcreate, H5P_FILE_ACCESS));
  SLABLOAD_HDF5(where, H5Pset_fapl_mpio, fapl.get(), comm, info.get());
  if (access == MpioAccess::write) {
    // The library's ranks meet whenever so much metadata is dirty, but count it differently where only some have chunks in a
    // collective write, and then wait for each other for ever (seen with 1.10.8). The most that it takes; flushes come before.
    H5AC_cache_config_t cache;
    cache.version = H5AC__CURR_CACHE_CONFIG_VERSION;
    SLABLOAD_HDF5(where, H5Pget_mdc_config, fapl.get(), &cache);
    cache.dirty_bytes_threshold = 32 << 20;
    SLABLOAD_HDF5(where, H5Pset_mdc_config, fapl.get(), &cache);
  }
  FileHandle file(H5Fopen(path.c_str(), access == MpioAccess::read ? H5F_ACC_RDONLY : H5F_ACC_RDWR, fapl.get()));
  if (!file) fail_open(path);
  return file;
}

std::string read_mpio(hid_t file, std::uint64_t offset, std::uint64_t bytes, void* out) {
  void* handle = nullptr;
  if (H5Fget_vfd_handle(file, H5P_DEFAULT, &handle) < 0 || handle == nullptr)
    return "H5Fget_vfd_handle failed: " + innermost_error();
  MPI_Status status;
  // HDF5 leaves the file's view as plain bytes from its beginning between its own calls.
  const int code = MPI_File_read_at(*static_cast<MPI_File*>(handle), narrow<MPI_Offset>(offset), out,
                                    narrow<int>(bytes), MPI_BYTE, &status);
  if (code != MPI_SUCCESS) return fmt::format("MPI_File_read_at at byte {}: {}", offset, mpi::error_text(code));
  int count = 0;
  SLABLOAD_MPI(MPI_Get_count, &status, MPI_BYTE, &count);
  if (narrow<std::uint64_t>(count) == bytes) return {};
  return fmt::format("MPI_File_read_at at byte {}: {} of {} bytes came", offset, count, bytes);
}

std::string mpio_component(hid_t file) {
  std::string chosen = open_mpi_choice();
  if (chosen.substr(0, 5) == "romio") return "ROMIO " + chosen.substr(5);
  if (chosen == "ompio") return "OMPIO";
  return has_romio_hints(file) ? "ROMIO" : "MPI-IO";
}

}  // namespace slabload::hdf5
