// Opening checkpoints of any format.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "app/index_child.h"
#include "app/options.h"
#include "app/session.h"
#include "backend/storage.h"
#include "layout/layout.h"

namespace slabload {

// Reads the index of an HDF5 file or of a safetensors file, folder or index. One process. Throws
// Status::file, and Status::wrong_data if a checksum of the index is wrong. An HDF5 file is walked by a process
// apart.
TensorIndex read_index(const std::string& path, const IndexReading& reading = {});

// What a load asks of an index: the names of a rules file (its text, or empty, and where it is from), then the selection,
// then that it is what the table at `expect` (or empty) wants. Throws Status::usage or Status::wrong_data.
struct IndexWish {
  Selection selection;
  std::string expect;
  std::string rules, rules_source;
  IndexReading reading;
};
TensorIndex wished_index(TensorIndex index, const IndexWish& wish);

// Reads the index on rank 0, applies the wish there, sends it to all ranks, and sees that all hosts have the same files.
// Collective; an error is agreed.
TensorIndex shared_index(Session& session, const std::string& path, const IndexWish& wish);

// The table of a file. Throws Status::file.
TensorIndex read_table(const std::string& path);

// Refuses (Status::wrong_data, every difference on a line) an index that is not what the table at `expect`
// wants.
void check_expected(const TensorIndex& index, const std::string& expect);

// The user's MPI-IO hints with ours added where the user says nothing: romio_ds_read=disable, since data
// sieving reads the holes between the rows of a column slab as well, and what lies there is another rank's to
// read.
std::vector<std::string> mpio_hints(std::vector<std::string> hints);

// Opens an index's files for reading on every rank. Collective.
std::unique_ptr<Storage> open_storage(Session& session, const TensorIndex& index, IoMode io,
                                      const std::vector<std::string>& hints);

// How often this rank has opened a dataset; 0 for formats that have none.
std::uint64_t datasets_opened(const Storage& storage);

// A file's whole text. Throws Status::file.
std::string read_text(const std::string& path);
// Writes a text file (a report). Throws Status::file. write_pieces: `make` passes the text on in pieces.
void write_pieces(const std::string& path,
                  const std::function<void(const std::function<void(std::string_view)>&)>& make);
void write_text(const std::string& path, const std::string& text);

// The layout that the options ask for on `ranks` ranks; `rules` is the text of a rules file if options.layout
// is one. Throws Status::usage, also if the mesh has another number of ranks.
Layout make_layout(const RunOptions& options, std::uint64_t ranks, const std::string& rules);
bool is_rules_file(const std::string& layout);

}  // namespace slabload
