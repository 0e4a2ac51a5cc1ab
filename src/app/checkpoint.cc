#include "app/checkpoint.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "app/same_files.h"
#include "backend/hdf5/open_file.h"
#include "backend/hdf5/reader.h"
#include "backend/host/temporary_file.h"
#include "backend/safetensors/index.h"
#include "backend/safetensors/storage.h"
#include "base/error.h"
#include "layout/name_rules.h"
#include "index/table.h"

namespace slabload {

TensorIndex read_index(const std::string& path, const IndexReading& reading) {
  return looks_like_safetensors(path) ? read_safetensors_index(path) : read_hdf5_index_apart(path, reading);
}

TensorIndex wished_index(TensorIndex index, const IndexWish& wish) {
  if (!wish.rules.empty())
    index = rename_tensors(std::move(index), NameRules::from_json(wish.rules, wish.rules_source));
  index = select_tensors(std::move(index), wish.selection);
  if (!wish.expect.empty()) check_expected(index, wish.expect);
  return index;
}

TensorIndex shared_index(Session& session, const std::string& path, const IndexWish& wish) {
  Control& control = session.control();
  std::string bytes;
  together(control, [&] {
    if (session.is_root()) bytes = to_bytes(wished_index(read_index(path, wish.reading), wish));
  });
  TensorIndex index = index_from_bytes(control.broadcast(std::move(bytes)));
  check_same_files(session, index);
  return index;
}

TensorIndex read_table(const std::string& path) {
  return parse_table(read_text(path), path);
}

void check_expected(const TensorIndex& index, const std::string& expect) {
  std::vector<std::string> found = differences(read_table(expect), index);
  if (found.empty()) return;
  std::string message = fmt::format("{}: {} difference{} from what {} expects; nothing was read", index.path,
                                    found.size(), found.size() == 1 ? "" : "s", expect);
  for (const std::string& line : found) message += "\n  " + line;
  throw Error(Status::wrong_data, message);
}

std::vector<std::string> mpio_hints(std::vector<std::string> hints) {
  const std::string key = "romio_ds_read=";
  bool given =
      std::any_of(hints.begin(), hints.end(), [&](const std::string& hint) { return hint.starts_with(key); });
  if (!given) hints.push_back(key + "disable");
  return hints;
}

std::unique_ptr<Storage> open_storage(Session& session, const TensorIndex& index, IoMode io,
                                      const std::vector<std::string>& hints) {
  if (index.format == "safetensors") return std::make_unique<SafetensorsStorage>(index);
  Hdf5Storage::Hints pairs;
  for (const std::string& hint : mpio_hints(hints)) {
    std::size_t equals = hint.find('=');
    pairs.emplace_back(hint.substr(0, equals), equals == std::string::npos ? "" : hint.substr(equals + 1));
  }
  auto transfer = io == IoMode::direct       ? Hdf5Storage::Transfer::direct
                  : io == IoMode::collective ? Hdf5Storage::Transfer::collective
                                             : Hdf5Storage::Transfer::independent;
  return std::make_unique<Hdf5Storage>(index, transfer, session.world(), pairs);
}

std::uint64_t datasets_opened(const Storage& storage) {
  const auto* hdf5 = dynamic_cast<const Hdf5Storage*>(&storage);
  return hdf5 == nullptr ? 0 : hdf5->datasets_opened();
}

namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using TextFile = std::unique_ptr<std::FILE, CloseFile>;

TextFile open_text(const std::string& path, const char* mode) {
  TextFile file(std::fopen(path.c_str(), mode));
  if (!file) fail(Status::file, "{}: {}", printable(path), errno_text(errno));
  return file;
}

}  // namespace

std::string read_text(const std::string& path) {
  constexpr std::size_t kMost = 256 << 20;
  TextFile file = open_text(path, "rbe");
  std::string text;
  char buffer[1 << 16];
  for (std::size_t n; (n = std::fread(buffer, 1, sizeof buffer, file.get())) > 0;) {
    text.append(buffer, n);
    if (text.size() > kMost)
      fail(Status::file, "{}: larger than 256 MiB; this is no table or rules file", printable(path));
  }
  if (std::ferror(file.get())) fail(Status::file, "{}: {}", printable(path), errno_text(errno));
  return text;
}

void write_pieces(const std::string& path,
                  const std::function<void(const std::function<void(std::string_view)>&)>& make) {
  namespace fs = std::filesystem;
  std::error_code none;
  const fs::file_status there = fs::status(path, none);
  if (fs::exists(there) && !fs::is_regular_file(there)) {  // a pipe or a device takes what comes
    TextFile file = open_text(path, "wbe");
    const auto check = [&](bool well) {
      if (!well) fail(Status::file, "{}: {}", printable(path), errno_text(errno));
    };
    make([&](std::string_view piece) { check(std::fwrite(piece.data(), 1, piece.size(), file.get()) == piece.size()); });
    check(std::fflush(file.get()) == 0);
    return;
  }
  // The file at the end of a link is replaced, whole or not at all.
  const std::string target = fs::exists(there) ? fs::canonical(path, none).string() : path;
  // What ends like the index of a safetensors checkpoint is taken for one, also where there was none.
  constexpr const char* kIndexEnding = ".index.json";
  if (target.ends_with(kIndexEnding) || (fs::exists(there) && (target.ends_with(".safetensors") || hdf5::is_hdf5(target))))
    fail(Status::usage, "{}: is {} checkpoint, which no report replaces", printable(path),
         target.ends_with(kIndexEnding) ? "the index of a" : "a");
  constexpr std::size_t kGathered = 1 << 20;  // of small pieces, before they are written
  host::TemporaryFile temporary(target);
  std::string gathered;
  std::uint64_t at = 0;
  const auto write = [&] {
    temporary.file().write_at(at, gathered.data(), gathered.size());
    at += gathered.size();
    gathered.clear();
  };
  make([&](std::string_view piece) {
    gathered += piece;
    if (gathered.size() >= kGathered) write();
  });
  write();
  temporary.publish(target, true);
}

void write_text(const std::string& path, const std::string& text) {
  write_pieces(path, [&](const auto& write) { write(text); });
}

bool is_rules_file(const std::string& layout) {
  return layout.ends_with(".json");
}

Layout make_layout(const RunOptions& options, std::uint64_t ranks, const std::string& rules) {
  std::optional<Mesh> mesh;
  if (!options.mesh.empty()) mesh = Mesh::parse(options.mesh);
  Layout layout = is_rules_file(options.layout)
                      ? Layout::from_json(rules, options.layout, mesh, ranks)
                      : Layout::preset(options.layout, mesh.value_or(Mesh({{"dp_shard", ranks}})));
  if (options.ranks && layout.mesh().ranks() != ranks) {
    fail(Status::usage, "--ranks: the mesh {} has {} ranks, not {}", layout.mesh().text(), layout.mesh().ranks(), ranks);
  }
  if (layout.mesh().ranks() != ranks) {
    fail(Status::usage, "the mesh {} has {} ranks, the job has {}: start as many, or change --mesh",
         layout.mesh().text(), layout.mesh().ranks(), ranks);
  }
  return layout;
}

}  // namespace slabload
