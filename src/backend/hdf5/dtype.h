// HDF5 datatypes and our element types, matched by their bit fields and never by the library's native types
// (which turn bf16 into float32).
#pragma once

#include <optional>
#include <string>

#include "backend/hdf5/handle.h"
#include "tensor/dtype.h"

namespace slabload::hdf5 {

struct TypeMatch {
  std::optional<DType> dtype;
  bool big_endian = false;  // never set for one-byte types
  std::string reason;       // why there is no dtype: "compound", "variable-length string", "12-bit integer"
};

// True if the dataset's attribute `dtype` can change what match_dtype says: an opaque or 2-byte unsigned
// type.
bool wants_dtype_attribute(hid_t type);

// `dtype_attribute` is the text of the dataset's attribute `dtype`, by which Keras marks bfloat16 stored as
// an opaque or unsigned 2-byte type; empty if there is none.
TypeMatch match_dtype(hid_t type, const std::string& dtype_attribute = {});

// A new little-endian datatype. bf16 and fp8 have the bit layout of H5T_FLOAT_BFLOAT16LE, H5T_FLOAT_F8E4M3
// and H5T_FLOAT_F8E5M2 of HDF5 2.0; bool is h5py's enumeration {FALSE = 0, TRUE = 1} over int8.
TypeHandle create_dtype(DType dtype);

}  // namespace slabload::hdf5
