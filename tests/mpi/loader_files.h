// Checkpoints for the loader's tests, and the ways in which they are loaded.
#pragma once

#include <mpi.h>

#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "backend/hdf5/index.h"
#include "backend/hdf5/sink.h"
#include "backend/safetensors/index.h"
#include "exec/generator.h"
#include "fakes/safetensors_bytes.h"
#include "mpi/loader_run.h"
#include "tools/shared_folder.h"

namespace slabload::testing {

inline constexpr std::uint64_t kSeed = 4711;

inline std::uint64_t world() {
  int size;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return static_cast<std::uint64_t>(size);
}

// The index as rank 0 reads it, on every rank.
template <typename Read>
TensorIndex shared(Read&& read) {
  mpi::MpiControl control(MPI_COMM_WORLD);
  std::string bytes;
  if (control.rank() == 0) bytes = to_bytes(read());
  return index_from_bytes(control.broadcast(std::move(bytes), 0));
}

inline TensorIndex write_hdf5(const SharedFolder& folder, const TensorIndex& table) {
  mpi::MpiControl control(MPI_COMM_WORLD);
  Hdf5Sink sink(folder / "a.h5", control, true);
  generate(sink, control, table, kSeed);
  return shared([&] { return read_hdf5_index(folder / "a.h5"); });
}

inline TensorIndex write_safetensors(SharedFolder& folder, const TensorIndex& table,
                                     const StoredBits& bits = formula(kSeed)) {
  folder.on_rank_0([&] {
    std::string json, data;
    for (const TensorMeta& tensor : table.tensors) {
      std::string shape;
      for (std::uint64_t length : tensor.shape.lengths())
        shape += fmt::format("{}{}", shape.empty() ? "" : ",", length);
      std::size_t begin = data.size();
      for (std::uint64_t i = 0; i < tensor.elements(); ++i)
        append_bits(data, bits(tensor, i), dtype_size(tensor.dtype));
      json += fmt::format("{}\"{}\":{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                          json.empty() ? "{" : ",", tensor.name, safetensors_name(tensor.dtype), shape, begin,
                          data.size());
    }
    std::ofstream(folder / "a.safetensors", std::ios::binary) << safetensors_bytes(json + "}", data);
    return 0;
  });
  return shared([&] { return read_safetensors_index(folder / "a.safetensors"); });
}

inline TensorMeta plain_tensor(const std::string& name, DType dtype, Shape shape) {
  TensorMeta tensor;
  tensor.name = tensor.path = name;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  return tensor;
}

inline Layout preset(const char* name) {
  return Layout::preset(name, Mesh({{"dp_shard", world()}}));
}

// The way each of these goes through the loader.
struct LoadWay {
  const char* name;
  const char* strategy;
  const char* layout;
  std::uint64_t min_read;

  void set(PlanParams& params) const {
    params.strategy = strategy;
    params.min_read = min_read;
    // A fabric so slow that replicas read for themselves.
    if (params.strategy == "auto") params.costs.fabric_rank = 1;
  }
};
inline const LoadWay kWays[] = {{"each its own", "slab", "fsdp2", 1},
                                {"all-gathers", "slab", "replicate", 1},
                                {"rereads", "auto", "replicate", 1},
                                {"relays", "slab", "replicate", 2000},
                                {"spread", "slab", "fsdp2", 5000},
                                {"exchange", "linear", "fsdp2", 1 << 20},
                                {"exchange of replicas", "linear", "replicate", 1 << 20}};

inline std::map<std::string, std::vector<int>> dims_of(const TensorIndex& index, const std::string& layout) {
  std::map<std::string, std::vector<int>> out;
  for (const TensorMeta& tensor : index.tensors)
    out[tensor.name] = {layout == "fsdp2" && tensor.shape.ndim() > 0 ? 0 : -1};
  return out;
}

// A checkpoint to be damaged.
inline TensorIndex three_tensors() {
  TensorIndex table;
  table.tensors = {plain_tensor("first", DType::f32, Shape{40, 30}),
                   plain_tensor("second", DType::bf16, Shape{101, 7}),
                   plain_tensor("third", DType::i64, Shape{64})};
  return table;
}

}  // namespace slabload::testing
