// Work done by another process, whose crash, hang or hunger for memory is an error here and nothing worse.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace slabload::host {

struct ChildLimits {
  double timeout_s = 240;                         // from its start to its answer
  std::uint64_t memory = std::uint64_t{4} << 30;  // that it may map beyond what it has at its start
};

// What the child sends: the result of `make`, or the Error that it threw.
using MakeBytes = std::function<std::string()>;

// Runs this program (/proc/self/exe) with `arguments` and, as the last two, the number of a descriptor and
// the memory limit; it is to call `answer` with them. Nothing of this process is copied, so it may hold MPI
// and GPUs. Returns the child's result. Throws the child's Error, and Status::file "ABOUT crashed (signal 11,
// ...): the file is damaged or hostile" and the like if it ended otherwise. `about` names the file and the
// work. Not collective; from any thread.
std::string from_new_process(const std::vector<std::string>& arguments, const ChildLimits& limits,
                             const std::string& about);

// The same by a copy of this process (fork), for where this program is not ours. `make` may use nothing that
// another thread could hold at that moment, and neither MPI nor a GPU.
std::string from_copy(const MakeBytes& make, const ChildLimits& limits, const std::string& about);

// In the new process: puts the limits on it, sends what `make` returns or throws to the descriptor, and ends
// it. `descriptor` and `memory` are the last two arguments.
[[noreturn]] void answer(const std::string& descriptor, const std::string& memory, const MakeBytes& make);

}  // namespace slabload::host
