// Where shards live: memory, and the copies within it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "tensor/box.h"
#include "tensor/dtype.h"

namespace slabload {

// A region of device memory, freed with the object. Move-only by way of unique_ptr.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual std::byte* data() const = 0;
  virtual std::uint64_t size() const = 0;
};

class Device {
 public:
  virtual ~Device() = default;

  // Memory of at least `bytes` bytes, zero bytes allowed; not initialised. Throws Status::usage if there is
  // not enough.
  virtual std::unique_ptr<DeviceMemory> allocate(std::uint64_t bytes, const char* purpose) = 0;

  // Makes fresh memory present, so that the first transfer into it does not pay for that. Needs not be
  // called; costs next to nothing for memory that is present already.
  virtual void prepare(std::byte* data, std::uint64_t bytes) = 0;

  // Copies the elements of `box` (global coordinates) from a dense buffer that holds `from_box` to a dense
  // buffer that holds `to_box`; box lies within both.
  virtual void copy_box(std::uint32_t element_size, const Box& box, const std::byte* from,
                        const Box& from_box, std::byte* to, const Box& to_box) = 0;

  virtual std::string description() const = 0;
};

}  // namespace slabload
