// What a load proves about the bytes.
#pragma once

namespace slabload {

enum class VerifyMode {
  none,
  checksum,  // each tensor's CRC, taken by the ranks that read its parts
  shards     // and again over the final shards, every replica's
};

}  // namespace slabload
