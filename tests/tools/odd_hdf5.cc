#include "tools/odd_hdf5.h"

#include <hdf5.h>

#include <algorithm>
#include <functional>
#include <stdexcept>

namespace slabload::testing {
namespace {

hid_t must(hid_t result, const char* what) {
  if (result < 0) throw std::runtime_error(std::string("making an HDF5 file: ") + what);
  return result;
}
#define MUST(function, ...) must(function(__VA_ARGS__), #function)

// The elements in the file's byte order and in ours.
struct Values {
  std::string file;
  std::string little;
};

Values make_values(std::uint64_t seed, std::uint64_t elements, std::size_t size, bool big, bool boolean) {
  Values out;
  for (std::uint64_t i = 0; i < elements; ++i) {
    std::uint64_t bits = odd_bits(seed, i);
    if (boolean) bits &= 1;
    std::string element;
    for (std::size_t b = 0; b < size; ++b) element += static_cast<char>(bits >> (8 * b));
    out.little += element;
    if (big) std::reverse(element.begin(), element.end());
    out.file += element;
  }
  return out;
}

hid_t float_type(size_t size, size_t exponent, size_t mantissa, size_t bias) {
  hid_t type = MUST(H5Tcopy, H5T_IEEE_F32LE);
  MUST(H5Tset_fields, type, mantissa + exponent, mantissa, exponent, size_t{0}, mantissa);
  MUST(H5Tset_precision, type, size * 8);
  MUST(H5Tset_size, type, size);
  MUST(H5Tset_ebias, type, bias);
  return type;
}

hid_t bool_type() {
  hid_t type = MUST(H5Tenum_create, H5T_STD_I8LE);
  signed char value = 0;
  MUST(H5Tenum_insert, type, "FALSE", &value);
  value = 1;
  MUST(H5Tenum_insert, type, "TRUE", &value);
  return type;
}

void text_attribute(hid_t object, const char* name, const std::string& value) {
  hid_t type = MUST(H5Tcopy, H5T_C_S1);
  MUST(H5Tset_size, type, value.size() + 1);
  hid_t space = MUST(H5Screate, H5S_SCALAR);
  hid_t attribute = MUST(H5Acreate2, object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
  MUST(H5Awrite, attribute, type, value.c_str());
  H5Aclose(attribute);
  H5Sclose(space);
  H5Tclose(type);
}

class Maker {
 public:
  Maker(const std::string& path, std::uint64_t user_block) {
    hid_t fcpl = MUST(H5Pcreate, H5P_FILE_CREATE);
    MUST(H5Pset_userblock, fcpl, user_block);
    file_ = MUST(H5Fcreate, path.c_str(), H5F_ACC_TRUNC, fcpl, H5P_DEFAULT);
    H5Pclose(fcpl);
    lcpl_ = MUST(H5Pcreate, H5P_LINK_CREATE);
    MUST(H5Pset_create_intermediate_group, lcpl_, 1u);
  }
  ~Maker() {
    H5Pclose(lcpl_);
    H5Fclose(file_);
  }
  Maker(const Maker&) = delete;
  Maker& operator=(const Maker&) = delete;

  using Shape = std::vector<std::uint64_t>;
  using Setup = std::function<void(hid_t dcpl)>;

  hid_t create(const std::string& name, hid_t type, const Shape& shape, const Setup& setup) {
    std::vector<hsize_t> dims(shape.begin(), shape.end());
    hid_t space = shape.empty() ? MUST(H5Screate, H5S_SCALAR)
                                : MUST(H5Screate_simple, static_cast<int>(dims.size()), dims.data(), nullptr);
    hid_t dcpl = MUST(H5Pcreate, H5P_DATASET_CREATE);
    if (setup) setup(dcpl);
    hid_t dataset = MUST(H5Dcreate2, file_, name.c_str(), type, space, lcpl_, dcpl, H5P_DEFAULT);
    H5Pclose(dcpl);
    H5Sclose(space);
    return dataset;
  }

  // A dataset with all elements written, and its entry. `type` stays the caller's.
  OddTensor& tensor(const std::string& name, DType dtype, hid_t type, const Shape& shape, StorageKind storage,
                    const Setup& setup = {}, bool big = false) {
    Values values = make_values(++seed_, elements(shape), H5Tget_size(type), big, dtype == DType::boolean);
    hid_t dataset = create(name, type, shape, setup);
    if (!values.file.empty()) {
      MUST(H5Dwrite, dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.file.data());
    }
    H5Dclose(dataset);
    out_.tensors.push_back({name, {}, dtype, shape, values.little, storage, big});
    return out_.tensors.back();
  }

  void never_written(const std::string& name, const Shape& shape, float fill, const Setup& more = {}) {
    hid_t dataset = create(name, H5T_IEEE_F32LE, shape, [&](hid_t dcpl) {
      if (fill != 0) MUST(H5Pset_fill_value, dcpl, H5T_NATIVE_FLOAT, &fill);
      if (more) more(dcpl);
    });
    H5Dclose(dataset);
    std::string bytes;
    for (std::uint64_t i = 0; i < elements(shape); ++i) bytes.append(reinterpret_cast<const char*>(&fill), 4);
    out_.tensors.push_back({name, {}, DType::f32, shape, bytes, StorageKind::fill});
  }

  // Chunks of 2 x 4 of a 6 x 8 tensor; only the first row of chunks is written, the rest is the fill value.
  void with_holes(const std::string& name) {
    const float fill = -2.5f;
    hid_t dataset = create(name, H5T_IEEE_F32LE, {6, 8}, [&](hid_t dcpl) {
      const hsize_t chunk[2] = {2, 4};
      MUST(H5Pset_chunk, dcpl, 2, chunk);
      MUST(H5Pset_fill_value, dcpl, H5T_NATIVE_FLOAT, &fill);
    });
    Values values = make_values(++seed_, 16, 4, false, false);
    hid_t from = MUST(H5Dget_space, dataset);
    const hsize_t start[2] = {0, 0};
    const hsize_t count[2] = {2, 8};
    MUST(H5Sselect_hyperslab, from, H5S_SELECT_SET, start, nullptr, count, nullptr);
    hid_t memory = MUST(H5Screate_simple, 2, count, nullptr);
    MUST(H5Dwrite, dataset, H5T_IEEE_F32LE, memory, from, H5P_DEFAULT, values.file.data());
    H5Sclose(memory);
    H5Sclose(from);
    H5Dclose(dataset);
    std::string bytes = values.little;
    for (int i = 16; i < 48; ++i) bytes.append(reinterpret_cast<const char*>(&fill), 4);
    out_.tensors.push_back({name, {}, DType::f32, {6, 8}, bytes, StorageKind::chunked_holes});
  }

  // A dataset that is no tensor.
  void no_tensor(const std::string& name, hid_t type, const Shape& shape, const std::string& word,
                 const Setup& setup = {}) {
    H5Dclose(create(name, type, shape, setup));
    skip(name, word);
  }

  void skip(const std::string& name, const std::string& word) { out_.skipped.push_back({name, word}); }

  // A second path to a group: each of its tensors has one name more.
  void name_again(const std::string& group, const std::string& other) {
    for (OddTensor& tensor : out_.tensors) {
      if (tensor.name.compare(0, group.size() + 1, group + "/") != 0) continue;
      tensor.aliases.push_back(other + tensor.name.substr(group.size()));
    }
  }

  hid_t file() const { return file_; }
  hid_t lcpl() const { return lcpl_; }

  OddFile take() {
    auto by_name = [](const auto& a, const auto& b) { return a.name < b.name; };
    std::sort(out_.tensors.begin(), out_.tensors.end(), by_name);
    std::sort(out_.skipped.begin(), out_.skipped.end(), by_name);
    return std::move(out_);
  }

 private:
  static std::uint64_t elements(const Shape& shape) {
    std::uint64_t product = 1;
    for (std::uint64_t n : shape) product *= n;
    return product;
  }

  hid_t file_;
  hid_t lcpl_;
  std::uint64_t seed_ = 0;
  OddFile out_;
};

void add_types(Maker& m) {
  const StorageKind plain = StorageKind::contiguous;
  m.tensor("types/f64", DType::f64, H5T_IEEE_F64LE, {3, 5}, plain);
  m.tensor("types/f32", DType::f32, H5T_IEEE_F32LE, {7, 4, 3}, plain);
  m.tensor("types/i64", DType::i64, H5T_STD_I64LE, {9}, plain);
  m.tensor("types/i32", DType::i32, H5T_STD_I32LE, {9}, plain);
  m.tensor("types/i16", DType::i16, H5T_STD_I16LE, {9}, plain);
  m.tensor("types/i8", DType::i8, H5T_STD_I8LE, {9}, plain);
  m.tensor("types/u64", DType::u64, H5T_STD_U64LE, {9}, plain);
  m.tensor("types/u32", DType::u32, H5T_STD_U32LE, {9}, plain);
  m.tensor("types/u16", DType::u16, H5T_STD_U16LE, {9}, plain);
  m.tensor("types/u8", DType::u8, H5T_STD_U8LE, {9}, plain);
  m.tensor("big/f32", DType::f32, H5T_IEEE_F32BE, {6, 10}, plain, {}, true);
  m.tensor("big/i16", DType::i16, H5T_STD_I16BE, {11, 3}, plain, {}, true);
  struct Float {
    const char* name;
    DType dtype;
    size_t size, exponent, mantissa, bias;
  };
  for (const Float& f :
       {Float{"types/f16", DType::f16, 2, 5, 10, 15}, Float{"types/bf16", DType::bf16, 2, 8, 7, 127},
        Float{"types/f8_e4m3", DType::f8_e4m3, 1, 4, 3, 7},
        Float{"types/f8_e5m2", DType::f8_e5m2, 1, 5, 2, 15}}) {
    hid_t type = float_type(f.size, f.exponent, f.mantissa, f.bias);
    m.tensor(f.name, f.dtype, type, {16, 17}, plain);
    H5Tclose(type);
  }
  hid_t boolean = bool_type();
  m.tensor("types/bool", DType::boolean, boolean, {13}, plain);
  H5Tclose(boolean);

  // bfloat16 as Keras marks it: by an attribute of an opaque or an unsigned type.
  hid_t opaque = MUST(H5Tcreate, H5T_OPAQUE, size_t{2});
  for (auto [name, type] :
       {std::pair<const char*, hid_t>{"keras/opaque", opaque}, {"keras/u16", H5T_STD_U16LE}}) {
    m.tensor(name, DType::bf16, type, {4, 4}, plain);
    hid_t dataset = MUST(H5Dopen2, m.file(), name, H5P_DEFAULT);
    text_attribute(dataset, "dtype", "bfloat16");
    H5Dclose(dataset);
  }
  m.no_tensor("keras/unmarked", opaque, {4}, "opaque without a dtype attribute");
  H5Tclose(opaque);
}

void add_storage(Maker& m) {
  auto chunk = [](hsize_t rows, hsize_t columns) {
    return [=](hid_t dcpl) {
      const hsize_t lengths[2] = {rows, columns};
      MUST(H5Pset_chunk, dcpl, 2, lengths);
    };
  };
  m.tensor("storage/scalar", DType::f32, H5T_IEEE_F32LE, {}, StorageKind::contiguous);
  m.tensor("storage/empty", DType::f32, H5T_IEEE_F32LE, {0, 4}, StorageKind::fill);
  m.tensor("storage/compact", DType::i32, H5T_STD_I32LE, {5, 3}, StorageKind::compact,
           [](hid_t dcpl) { MUST(H5Pset_layout, dcpl, H5D_COMPACT); });
  m.tensor("storage/chunked", DType::f32, H5T_IEEE_F32LE, {10, 9}, StorageKind::chunked, chunk(4, 5));
  m.tensor("storage/gzip", DType::i32, H5T_STD_I32LE, {33, 20}, StorageKind::chunked, [&](hid_t dcpl) {
    chunk(8, 7)(dcpl);
    MUST(H5Pset_shuffle, dcpl);
    MUST(H5Pset_deflate, dcpl, 6u);
  });
  m.tensor("storage/fletcher", DType::u16, H5T_STD_U16LE, {12, 8}, StorageKind::chunked, [&](hid_t dcpl) {
    chunk(5, 8)(dcpl);
    MUST(H5Pset_fletcher32, dcpl);
  });
  m.with_holes("storage/holes");
  m.never_written("storage/unwritten", {3, 7}, 1.5f);
  m.never_written("storage/unwritten_zero", {3, 7}, 0.0f);
  m.never_written("storage/unwritten_chunked", {6, 8}, 0.25f, chunk(2, 4));
}

void add_links(Maker& m) {
  OddTensor& shared = m.tensor("links/b", DType::f32, H5T_IEEE_F32LE, {8, 2}, StorageKind::contiguous);
  shared.name = "links/a_hard";  // the smallest of its hard links
  shared.aliases = {"links/0_soft", "links/b", "links/z/hard"};
  MUST(H5Lcreate_hard, m.file(), "links/b", m.file(), "links/a_hard", m.lcpl(), H5P_DEFAULT);
  MUST(H5Lcreate_hard, m.file(), "links/b", m.file(), "links/z/hard", m.lcpl(), H5P_DEFAULT);
  MUST(H5Lcreate_soft, "/links/b", m.file(), "links/0_soft", m.lcpl(), H5P_DEFAULT);

  MUST(H5Lcreate_soft, "/nowhere", m.file(), "links/dangling", m.lcpl(), H5P_DEFAULT);
  m.skip("links/dangling", "dangling");
  MUST(H5Lcreate_soft, "/links/loop", m.file(), "links/loop", m.lcpl(), H5P_DEFAULT);
  m.skip("links/loop", "dangling");
  MUST(H5Lcreate_external, "other.h5", "/x", m.file(), "links/external", m.lcpl(), H5P_DEFAULT);
  m.skip("links/external", "external link");
  MUST(H5Lcreate_soft, "/links/external", m.file(), "links/through_external", m.lcpl(), H5P_DEFAULT);
  m.skip("links/through_external", "dangling");
  MUST(H5Lcreate_hard, m.file(), "links", m.file(), "links/z/up", m.lcpl(), H5P_DEFAULT);
  m.skip("links/z/up", "cyclic");
  MUST(H5Lcreate_soft, "/", m.file(), "links/root", m.lcpl(), H5P_DEFAULT);
  m.skip("links/root", "cyclic");
  MUST(H5Lcreate_hard, m.file(), "types", m.file(), "types_again", m.lcpl(), H5P_DEFAULT);
  m.name_again("types", "types_again");
}

void add_others(Maker& m) {
  hid_t fixed = MUST(H5Tcopy, H5T_C_S1);
  MUST(H5Tset_size, fixed, size_t{5});
  m.no_tensor("others/string", fixed, {3}, "fixed-length string");
  MUST(H5Tset_size, fixed, H5T_VARIABLE);
  m.no_tensor("others/vlen_string", fixed, {3}, "variable-length string");
  H5Tclose(fixed);
  hid_t vlen = MUST(H5Tvlen_create, H5T_STD_I32LE);
  m.no_tensor("others/vlen", vlen, {3}, "variable-length sequence");
  H5Tclose(vlen);
  hid_t compound = MUST(H5Tcreate, H5T_COMPOUND, size_t{8});
  MUST(H5Tinsert, compound, "r", size_t{0}, H5T_IEEE_F32LE);
  MUST(H5Tinsert, compound, "i", size_t{4}, H5T_IEEE_F32LE);
  m.no_tensor("others/compound", compound, {3}, "compound");
  H5Tclose(compound);
  m.no_tensor("others/reference", H5T_STD_REF_OBJ, {3}, "reference");
  m.no_tensor("others/bits", H5T_STD_B8LE, {3}, "bit field");
  hid_t twelve = MUST(H5Tcopy, H5T_STD_U16LE);
  MUST(H5Tset_precision, twelve, size_t{12});
  m.no_tensor("others/twelve", twelve, {3}, "12-bit integer");
  H5Tclose(twelve);
  hid_t fnuz = float_type(1, 4, 3, 8);
  m.no_tensor("others/f8_other_bias", fnuz, {3}, "bias 8");
  H5Tclose(fnuz);
  hid_t color = MUST(H5Tenum_create, H5T_STD_I8LE);
  signed char value = 0;
  MUST(H5Tenum_insert, color, "RED", &value);
  m.no_tensor("others/enum", color, {3}, "enumeration");
  H5Tclose(color);
  m.no_tensor("others/external_storage", H5T_STD_I32LE, {3}, "external files",
              [](hid_t dcpl) { MUST(H5Pset_external, dcpl, "other.bin", off_t{0}, hsize_t{12}); });
  m.no_tensor("others/virtual", H5T_STD_I32LE, {3}, "virtual", [](hid_t dcpl) {
    const hsize_t length = 3;
    hid_t space = MUST(H5Screate_simple, 1, &length, nullptr);
    MUST(H5Pset_virtual, dcpl, space, "other.h5", "/x", space);
    H5Sclose(space);
  });
  m.no_tensor("others/too_large", H5T_STD_I32LE, {std::uint64_t{1} << 40, std::uint64_t{1} << 40}, "64-bit",
              [](hid_t dcpl) {
                const hsize_t chunk[2] = {1, 1024};
                MUST(H5Pset_chunk, dcpl, 2, chunk);
              });
  hid_t null = MUST(H5Screate, H5S_NULL);
  H5Dclose(
      MUST(H5Dcreate2, m.file(), "others/null", H5T_IEEE_F32LE, null, m.lcpl(), H5P_DEFAULT, H5P_DEFAULT));
  H5Sclose(null);
  m.skip("others/null", "null dataspace");
  hid_t named = MUST(H5Tcopy, H5T_IEEE_F32LE);
  MUST(H5Tcommit2, m.file(), "others/named_type", named, m.lcpl(), H5P_DEFAULT, H5P_DEFAULT);
  H5Tclose(named);
  m.skip("others/named_type", "named datatype");
}

}  // namespace

std::uint64_t odd_bits(std::uint64_t seed, std::uint64_t i) {
  std::uint64_t x = seed * 0x9e3779b97f4a7c15 + i + 1;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

OddFile write_odd_hdf5(const std::string& path, std::uint64_t user_block) {
  Maker m(path, user_block);
  add_types(m);
  add_storage(m);
  add_links(m);
  add_others(m);
  hid_t root = MUST(H5Gopen2, m.file(), "/", H5P_DEFAULT);
  text_attribute(root, "author", "someone");
  H5Gclose(root);
  return m.take();
}

OddTensor write_one_tensor(const std::string& path, std::uint64_t elements) {
  Maker m(path, 0);
  m.tensor("a", DType::f32, H5T_IEEE_F32LE, {elements}, StorageKind::contiguous);
  return m.take().tensors[0];
}

}  // namespace slabload::testing
