// What the sinks' tests write, and the words of their errors.
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>

#include <string>

#include "backend/sink.h"
#include "tools/odd_hdf5.h"

namespace slabload::testing {

inline std::string values_of(std::size_t number, const TensorMeta& tensor) {
  std::string out;
  for (std::uint64_t i = 0; i < tensor.bytes(); ++i) out += static_cast<char>(odd_bits(number, i));
  if (tensor.dtype == DType::boolean) {
    for (char& c : out) c = static_cast<char>(c & 1);
  }
  return out;
}

// Each rank writes its share of every tensor.
inline void write_all(CheckpointSink& sink, const TensorIndex& index) {
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (std::size_t t = 0; t < index.tensors.size(); ++t) {
    std::string values = values_of(t, index.tensors[t]);
    std::uint64_t n = index.tensors[t].elements();
    auto share = [&](int r) { return n * static_cast<std::uint64_t>(r) / static_cast<std::uint64_t>(ranks); };
    FlatRange range{share(rank), share(rank + 1)};
    sink.write(t, range, values.data() + range.begin * dtype_size(index.tensors[t].dtype));
  }
}

template <typename Call>
std::string sink_error(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::file);
    EXPECT_TRUE(error.agreed());
    return error.message();
  }
  return "no error";
}

}  // namespace slabload::testing
