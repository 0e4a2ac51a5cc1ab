// What slabload adds to a plain HDF5 file: one group, and one attribute per dataset.
#pragma once

#include <cstddef>
#include <cstdint>

namespace slabload::hdf5 {

inline constexpr const char* kGroup = "__slabload__";
inline constexpr const char* kMetadata = "/__slabload__/metadata";   // bytes: a JSON object of strings
inline constexpr const char* kOddNames = "/__slabload__/odd_names";  // tensors whose names are no HDF5 paths
inline constexpr const char* kFormatMajor = "format_major";          // attributes of the group
inline constexpr const char* kFormatMinor = "format_minor";
inline constexpr const char* kComplete = "complete";
inline constexpr const char* kGenerator = "generator";
inline constexpr const char* kIndexCrc64 = "index_crc64";  // from minor version 1: index_checksum of the file
inline constexpr const char* kCrc64 = "slabload_crc64";    // attributes of a dataset
inline constexpr const char* kName =
    "slabload_name";  // of a dataset in kOddNames: bytes of the tensor's name

// Groups below each other that a reader goes down; a name with more is one of kOddNames.
inline constexpr std::size_t kMostDepth = 256;

// A reader takes any minor version of the major version it knows.
inline constexpr std::uint64_t kMajor = 1;
inline constexpr std::uint64_t kMinor = 1;

}  // namespace slabload::hdf5
