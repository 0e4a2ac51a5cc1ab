#include "backend/hdf5/dataset.h"

#include <algorithm>
#include <array>

#include "backend/hdf5/attribute.h"
#include "backend/hdf5/dtype.h"
#include "backend/hdf5/format.h"
#include "base/bytes.h"
#include "base/narrow.h"

namespace slabload::hdf5 {
namespace {

std::string filter_name(H5Z_filter_t id, const std::vector<unsigned>& values, const char* stored_name) {
  switch (id) {
    case H5Z_FILTER_DEFLATE:
      return values.empty() ? "deflate" : fmt::format("deflate({})", values[0]);
    case H5Z_FILTER_SHUFFLE:
      return "shuffle";
    case H5Z_FILTER_FLETCHER32:
      return "fletcher32";
    case H5Z_FILTER_SZIP:
      return "szip";
    case H5Z_FILTER_NBIT:
      return "nbit";
    case H5Z_FILTER_SCALEOFFSET:
      return "scaleoffset";
    default:
      break;
  }
  std::string name = printable(stored_name);
  return name.empty() ? fmt::format("filter {}", id) : fmt::format("{} (filter {})", name, id);
}

// Fills tensor.filters; returns the reason if one of them is not available here.
std::string read_filters(hid_t dcpl, TensorMeta& tensor, const Where& where) {
  int count = SLABLOAD_HDF5(where, H5Pget_nfilters, dcpl);
  for (int i = 0; i < count; ++i) {
    std::vector<unsigned> values(32);
    std::array<char, 256> name{};
    size_t entries = values.size();
    unsigned flags = 0;
    unsigned config = 0;
    H5Z_filter_t id = SLABLOAD_HDF5(where, H5Pget_filter2, dcpl, static_cast<unsigned>(i), &flags, &entries,
                                    values.data(), name.size() - 1, name.data(), &config);
    values.resize(std::min(entries, values.size()));
    tensor.filters.push_back(filter_name(id, values, name.data()));
    if (H5Zfilter_avail(id) <= 0) {
      return fmt::format(
          "needs {}, which this HDF5 library does not have (HDF5_PLUGIN_PATH names plugin folders)",
          tensor.filters.back());
    }
  }
  return {};
}

// A file of a few bytes may declare any size that it never writes.
constexpr std::uint64_t kMostUnwritten = std::uint64_t{1} << 40;

// Makes the tensor one that was never written; returns the reason if its elements then have no value.
std::string set_fill(hid_t dcpl, hid_t type, TensorMeta& tensor, const Where& where) {
  tensor.storage = StorageKind::fill;
  tensor.stored_bytes = 0;
  tensor.chunk.clear();
  tensor.filters.clear();
  if (tensor.elements() == 0) return {};
  if (tensor.bytes() > kMostUnwritten)
    return fmt::format("declares {}, and nothing of it is in the file", format_bytes(tensor.bytes()));
  H5D_fill_value_t defined = H5D_FILL_VALUE_ERROR;
  SLABLOAD_HDF5(where, H5Pfill_value_defined, dcpl, &defined);
  if (defined == H5D_FILL_VALUE_UNDEFINED) return "never written, and without a fill value";
  if (defined != H5D_FILL_VALUE_USER_DEFINED) return {};
  std::vector<unsigned char> value(H5Tget_size(type));
  SLABLOAD_HDF5(where, H5Pget_fill_value, dcpl, type, value.data());
  if (std::any_of(value.begin(), value.end(), [](unsigned char b) { return b != 0; }))
    tensor.fill = std::move(value);
  return {};
}

[[noreturn]] void cut_short(const Where& where, std::uint64_t end, std::uint64_t file_size) {
  fail(Status::file, "{}: its data ends at byte {}, the file at byte {}: the file is cut short or damaged",
       text(where), end, file_size);
}

std::string locate_contiguous(hid_t dataset, hid_t dcpl, hid_t type, std::uint64_t file_size,
                              TensorMeta& tensor, const Where& where) {
  if (H5Pget_external_count(dcpl) > 0) return "data in external files, not followed";
  // Not by the offset: in a file with a user block H5Dget_offset adds its size even to "nowhere".
  std::uint64_t allocated = H5Dget_storage_size(dataset);
  if (allocated == 0) return set_fill(dcpl, type, tensor, where);
  haddr_t offset = H5Dget_offset(dataset);
  if (offset == HADDR_UNDEF) return "damaged: no file offset";
  if (offset == 0) return "damaged: its data lies over the beginning of the file";
  tensor.storage = StorageKind::contiguous;
  tensor.offset = offset;
  tensor.stored_bytes = tensor.bytes();
  std::uint64_t end = 0;
  if (!checked_add(offset, tensor.bytes(), &end) || end > file_size) cut_short(where, end, file_size);
  if (allocated < tensor.bytes())
    return fmt::format("damaged: {} bytes allocated for {}", allocated, tensor.bytes());
  return {};
}

std::string locate_chunked(hid_t dataset, hid_t space, hid_t dcpl, hid_t type, std::uint64_t file_size,
                           TensorMeta& tensor, const Where& where) {
  std::size_t ndim = tensor.shape.ndim();
  std::vector<hsize_t> chunk(ndim);
  SLABLOAD_HDF5(where, H5Pget_chunk, dcpl, narrow<int>(ndim), chunk.data());
  tensor.chunk.assign(chunk.begin(), chunk.end());
  std::uint64_t needed = 1;  // cannot overflow: no more chunks than elements
  std::uint64_t chunk_bytes = dtype_size(tensor.dtype);
  for (std::size_t d = 0; d < ndim; ++d) {
    // The library takes chunks below 4 GiB only.
    if (tensor.chunk[d] == 0 || tensor.chunk[d] > UINT32_MAX || chunk_bytes * tensor.chunk[d] > UINT32_MAX)
      return fmt::format("damaged: chunks of shape {}", dims_text(tensor.chunk));
    chunk_bytes *= tensor.chunk[d];
    needed *= ceil_div(tensor.shape[d], tensor.chunk[d]);
  }
  if (std::string reason = read_filters(dcpl, tensor, where); !reason.empty()) return reason;
  hsize_t there = 0;
  SLABLOAD_HDF5(where, H5Dget_num_chunks, dataset, space, &there);
  if (there == 0) return set_fill(dcpl, type, tensor, where);
  tensor.storage = there < needed ? StorageKind::chunked_holes : StorageKind::chunked;
  tensor.stored_bytes = H5Dget_storage_size(dataset);
  if (tensor.stored_bytes > file_size) cut_short(where, tensor.stored_bytes, file_size);
  // No filter lets data grow by more than this; what is larger expands to more than a chunk when it is read.
  const std::uint64_t plain = there * chunk_bytes;
  if (tensor.stored_bytes > plain + plain / 64 + there * 1024)
    return fmt::format("damaged: {} bytes in the file for chunks of {}", tensor.stored_bytes, plain);
  if (tensor.filters.empty() && tensor.stored_bytes != plain)
    return fmt::format("damaged: {} bytes in the file for chunks of {}", tensor.stored_bytes, plain);
  if (tensor.storage == StorageKind::chunked_holes &&
      tensor.bytes() - std::min(plain, tensor.bytes()) > kMostUnwritten)
    return fmt::format("declares {}, and next to nothing of it is in the file", format_bytes(tensor.bytes()));
  return {};
}

}  // namespace

Description describe_dataset(hid_t dataset, std::uint64_t file_size, const Where& where) {
  auto no = [](std::string reason) { return Description{std::nullopt, std::move(reason)}; };
  PropertyHandle dcpl(SLABLOAD_HDF5(where, H5Dget_create_plist, dataset));
  H5D_layout_t layout = SLABLOAD_HDF5(where, H5Pget_layout, dcpl.get());
  // Before its dataspace: asking a virtual dataset for that may open the files it points at.
  if (layout == H5D_VIRTUAL) return no("virtual dataset, its data lies in other datasets");

  TensorMeta tensor;
  tensor.path = where.object;
  H5O_info_t info;
  SLABLOAD_HDF5(where, H5Oget_info2, dataset, &info, H5O_INFO_NUM_ATTRS);
  TypeHandle type(SLABLOAD_HDF5(where, H5Dget_type, dataset));
  std::string marked;
  if (info.num_attrs > 0 && wants_dtype_attribute(type.get())) {
    marked = read_text(dataset, "dtype", where).value_or("");
  }
  TypeMatch match = match_dtype(type.get(), marked);
  if (!match.dtype) return no(std::move(match.reason));
  tensor.dtype = *match.dtype;
  tensor.big_endian = match.big_endian;

  SpaceHandle space(SLABLOAD_HDF5(where, H5Dget_space, dataset));
  if (H5Sget_simple_extent_type(space.get()) == H5S_NULL) return no("empty (null dataspace)");
  int ndim = SLABLOAD_HDF5(where, H5Sget_simple_extent_ndims, space.get());
  if (static_cast<std::size_t>(ndim) > kMaxNdim) return no(fmt::format("{} dimensions", ndim));
  std::array<hsize_t, H5S_MAX_RANK> lengths{};
  SLABLOAD_HDF5(where, H5Sget_simple_extent_dims, space.get(), lengths.data(), nullptr);
  tensor.shape.lengths().assign(lengths.begin(), lengths.begin() + ndim);
  std::optional<std::uint64_t> elements = tensor.shape.checked_elements();
  if (!elements || *elements > INT64_MAX / 8) {
    return no(fmt::format("shape {} is beyond 64-bit sizes", tensor.shape.text()));
  }
  if (info.num_attrs > 0) tensor.crc64 = read_number(dataset, kCrc64, where);

  std::string reason;
  if (tensor.elements() == 0) {
    reason = set_fill(dcpl.get(), type.get(), tensor, where);
  } else if (layout == H5D_CONTIGUOUS) {
    reason = locate_contiguous(dataset, dcpl.get(), type.get(), file_size, tensor, where);
  } else if (layout == H5D_CHUNKED) {
    reason = locate_chunked(dataset, space.get(), dcpl.get(), type.get(), file_size, tensor, where);
  } else if (layout == H5D_COMPACT) {
    tensor.storage = StorageKind::compact;
    tensor.stored_bytes = tensor.bytes();
  } else {
    reason = fmt::format("unknown storage layout {}", static_cast<int>(layout));
  }
  if (!reason.empty()) return no(std::move(reason));
  return {std::move(tensor), {}};
}

}  // namespace slabload::hdf5
