// Saving through the C interface: shards in the caller's memory.
#include "app/checkpoint.h"
#include "app/save_job.h"
#include "backend/hdf5/sink.h"
#include "base/narrow.h"
#include "capi/fence.h"
#include "tensor/dtype.h"

using namespace slabload;
using namespace slabload::capi;

namespace {

// What the caller's tensors are, whole.
TensorIndex index_of(const slabload_state* tensors, std::uint64_t count) {
  if (count != 0) need(tensors, "tensors");
  TensorIndex index;
  index.path = "the caller's tensors";
  index.format = "memory";
  for (std::uint64_t i = 0; i < count; ++i) {
    const slabload_state& given = tensors[i];
    need(given.name, "tensors[].name");
    need(given.dtype, "tensors[].dtype");
    if (given.ndim != 0) need(given.global_shape, "tensors[].global_shape");
    if (given.ndim > kMaxNdim)
      fail(Status::usage, "tensor {}: {} dimensions, {} are the most", printable(given.name), given.ndim, kMaxNdim);
    TensorMeta tensor;
    tensor.name = tensor.path = given.name;
    std::optional<DType> dtype = parse_dtype(given.dtype);
    if (!dtype)
      fail(Status::usage, "tensor {}: '{}' is no dtype; see slabload_tensor", printable(given.name), printable(given.dtype));
    tensor.dtype = *dtype;
    tensor.shape = Shape(Dims(given.global_shape, given.global_shape + given.ndim));
    tensor.stored_bytes = tensor.bytes();
    index.tensors.push_back(std::move(tensor));
  }
  return index;
}

}  // namespace

slabload_status slabload_save(int communicator, const char* checkpoint, const slabload_state* tensors,
                              uint64_t tensor_count, const slabload_option* options, uint64_t option_count,
                              slabload_error** error) {
  return fenced(error, [&] {
    Session session(Session::comm_of(communicator));
    RunOptions parsed;
    SaveSource source;
    std::optional<Layout> layout;
    // From here on a wrong argument of one rank is every rank's error: the others must not wait for it.
    together(session.control(), [&] {
      need(checkpoint, "checkpoint");
      parsed = parse_options("save", options, option_count);
      for (const char* other : {"from", "stage-in", "out", "select", "exclude", "expect", "cast"}) {
        for (std::uint64_t i = 0; i < option_count; ++i) {
          if (std::string(options[i].name) == other)
            fail(Status::usage, "the option '{}' has no meaning here: the tensors given are what is saved", other);
        }
      }
      if (parsed.device == "auto") parsed.device = "host";
      parsed.out = checkpoint;
      source.index = index_of(tensors, tensor_count);
      source.name = source.index.path;
      const std::string rules = is_rules_file(parsed.layout) ? read_text(parsed.layout) : "";
      layout.emplace(make_layout(parsed, static_cast<std::uint64_t>(session.ranks()), rules));
    });
    auto watchdog = session.watch(parsed.timeout_s, "");
    Hardware hardware(session, parsed);
    SaveJob job(session, parsed, *layout, hardware);
    job.check(source.index);
    together(session.control(), [&] {
      const SavePlan plan = job.plan(source.index);
      for (std::uint64_t t = 0; t < tensor_count; ++t) {
        const ShardPlace& shard = plan.load.shards[t];
        if (tensors[t].bytes != shard.bytes) {
          fail(Status::usage, "tensor {}: {} bytes are given, this rank's part by the layout has {}",
               printable(tensors[t].name), tensors[t].bytes, shard.bytes);
        }
        if (shard.bytes != 0) need(tensors[t].data, "tensors[].data");
        source.shards.apart.push_back(static_cast<const std::byte*>(tensors[t].data));
      }
    });
    source.device = hardware.device();
    job.run(source, *watchdog);
  });
}
