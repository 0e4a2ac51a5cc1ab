// Where shards live: memory, and what is done to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tensor/box.h"
#include "tensor/dtype.h"

namespace slabload {

// A region of memory, freed with the object. Move-only by way of unique_ptr.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual std::byte* data() const = 0;
  virtual std::uint64_t size() const = 0;
};

// A point in a device's queue.
using Mark = std::uint64_t;

// A device has one queue. The operations below the line are put into it and run in its order, now or later;
// what they read and write stays untouched by others until a mark behind them has passed. Operands are the
// device's memory but for `host`. A failing call throws an Error; one that runs later may report it at any
// later call.
class Device {
 public:
  virtual ~Device() = default;

  // Memory of at least `bytes` bytes, zero bytes allowed, not initialised, aligned to 256 bytes. Throws
  // Status::usage naming `purpose` and what is lacking if there is not enough.
  virtual std::unique_ptr<DeviceMemory> allocate(std::uint64_t bytes, const char* purpose) = 0;
  // Throws Status::usage naming `what` and what is lacking if allocate() could not give `bytes` in all by
  // now.
  virtual void require(std::uint64_t /*bytes*/, const std::string& /*what*/) {}
  // The same as allocate() in the host's memory, aligned to a page, for copy_in and copy_out at full speed
  // (pinned).
  virtual std::unique_ptr<DeviceMemory> allocate_staging(std::uint64_t bytes, const char* purpose) = 0;

  // From here on no memory of it is given back: something may be under way there that nothing can end any
  // more, and the process ends soon.
  virtual void abandon() noexcept {}

  // True if the host itself may read and write what allocate() gives, so that reads can land there.
  virtual bool host_accessible() const = 0;

  // Makes fresh memory of the host present, so that the first transfer into it does not pay for that. Needs
  // not be called; costs next to nothing for memory that is present already, and nothing on other devices.
  virtual void prepare(std::byte* data, std::uint64_t bytes) = 0;

  // Does all that a first use would have to do: loads every kernel, creates what is made lazily.
  virtual void warm_up() = 0;

  // ---- the queue
  // -------------------------------------------------------------------------------------------------

  virtual void copy_in(const std::byte* host, std::byte* to, std::uint64_t bytes) = 0;
  virtual void copy_out(const std::byte* from, std::byte* host, std::uint64_t bytes) = 0;

  // Casts `count` elements as cast_elements (tensor/cast.h) does, bit for bit; the regions don't overlap.
  virtual void cast(DType from, DType to, const std::byte* in, std::uint64_t count, std::byte* out) = 0;

  // Copies the elements of `box` (global coordinates) from a dense buffer that holds `from_box` to a dense
  // buffer that holds `to_box`; box lies within both.
  virtual void copy_box(std::uint32_t element_size, const Box& box, const std::byte* from,
                        const Box& from_box, std::byte* to, const Box& to_box) = 0;

  // Puts the linear CRC of `box`, which `data` holds densely, as a share of a tensor of that shape (see
  // tensor/box_checksum.h) into the 8 bytes at `sum`, which are aligned to 8 and may hold anything before.
  virtual void checksum_box(const Shape& shape, const Box& box, std::uint32_t element_size,
                            const std::byte* data, std::byte* sum) = 0;

  // The point behind everything that was put into the queue so far.
  virtual Mark mark() = 0;
  // Nothing until the point has passed, then when that was, in seconds as now_s() counts (base/stopwatch.h).
  // Never blocks; may be asked again while at most 64 younger marks have been made.
  virtual std::optional<double> passed(Mark mark) = 0;

  // ---- what it is
  // ------------------------------------------------------------------------------------------------

  // The most memory that allocate() has had out at once; 0 where the host's own peak tells.
  virtual std::uint64_t peak_bytes() const = 0;
  // "host", "cuda (NVIDIA H100, one per rank)".
  virtual std::string description() const = 0;
};

}  // namespace slabload
