#include "app/same_files.h"

#include <cstring>
#include <vector>

#include "backend/host/file.h"
#include "base/crc64.h"
#include "base/error.h"
#include "index/file_samples.h"

namespace slabload {
namespace {

// One number a sample.
std::vector<std::uint64_t> fingerprints(const TensorIndex& index, const std::vector<FileSample>& samples) {
  std::vector<std::uint64_t> out;
  std::vector<char> bytes;
  host::File file;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const FileSample& sample = samples[i];
    if (i == 0 || sample.file != samples[i - 1].file) file = host::File::open_read(index.files[sample.file].path);
    bytes.resize(sample.bytes);
    file.read_at(sample.offset, bytes.data(), sample.bytes);
    out.push_back(crc64_part(bytes.data(), bytes.size()));
  }
  return out;
}

void compare_states(const TensorIndex& index, const std::string& host) {
  for (const CheckpointFile& there : index.files) {
    const host::FileState here = host::file_state(there.path);
    if (here.size == there.size && here.inode == there.inode) continue;
    fail(Status::file,
         "file '{}': this host has another one under that name ({} bytes, inode {}) than {}, the host of rank 0 ({} bytes, "
         "inode {}); nothing was read. Is the file system mounted here?",
         printable(there.path), here.size, here.inode, host, there.size, there.inode);
  }
}

}  // namespace

void check_same_files(Session& session, const TensorIndex& index) {
  Control& control = session.control();
  std::uint64_t hosts = session.leads_node() ? 1 : 0;
  control.sum({&hosts, 1});
  if (hosts < 2 || index.files.empty()) return;

  const std::string root_host = control.broadcast(session.is_root() ? control.host() : "");
  together(control, [&] {
    if (session.leads_node()) compare_states(index, root_host);
  });
  const std::vector<FileSample> samples = file_samples(index);
  std::string bytes;
  std::vector<std::uint64_t> here;
  together(control, [&] {
    if (session.leads_node()) here = fingerprints(index, samples);
    if (session.is_root()) bytes.assign(reinterpret_cast<const char*>(here.data()), here.size() * sizeof here[0]);
  });
  bytes = control.broadcast(std::move(bytes));
  together(control, [&] {
    if (!session.leads_node()) return;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      std::uint64_t there = 0;
      std::memcpy(&there, bytes.data() + i * sizeof there, sizeof there);
      if (here[i] == there) continue;
      fail(Status::file,
           "file '{}': holds other bytes on this host than on {}, the host of rank 0, from byte {} on; nothing was read. "
           "Is it a copy of another time, or a cache that is behind?",
           printable(index.files[samples[i].file].path), root_host, samples[i].offset);
    }
  });
}

}  // namespace slabload
