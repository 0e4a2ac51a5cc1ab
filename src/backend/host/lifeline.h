// A sign of life between the processes of one node. The operating system itself gives it when a process ends,
// however that happens: each owns a pipe whose writing end nobody else holds, so that the others see it
// close.
#pragma once

#include <cstdint>
#include <utility>

namespace slabload::host {

// The last thing that the owner of a lifeline has said.
enum class LastWord { none, leaves, ends_the_job };

// A pipe, both ends of it; move-only. Without descriptors (not made, not opened) it stays silent.
class Lifeline {
 public:
  // Where another process of the node finds it.
  struct Address {
    std::int32_t process = 0;
    std::int32_t descriptor = -1;
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
  };

  // This process's own.
  Lifeline();
  // Another's, to watch. Not opened if the owner cannot be reached, as from within another container.
  explicit Lifeline(const Address& address);
  ~Lifeline();
  Lifeline(Lifeline&& other) noexcept
      : address_(other.address_),
        read_(std::exchange(other.read_, -1)),
        write_(std::exchange(other.write_, -1)) {}
  Lifeline& operator=(Lifeline&&) = delete;

  // False if there is nothing to watch: the system refused.
  bool open() const { return read_ >= 0; }
  const Address& address() const { return address_; }
  // For poll(): POLLHUP once the owner has closed it or ended, POLLIN once it has said something.
  int descriptor() const { return read_; }

  // The owner's to say; the words stay. Never blocks; callable from any thread.
  void say(LastWord word) noexcept;
  // Callable on either side, also after the owner's end.
  LastWord last_word() const;

 private:
  Address address_;
  int read_ = -1;
  int write_ = -1;
};

}  // namespace slabload::host
