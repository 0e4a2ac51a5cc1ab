// Another program that does a small piece of work.
#pragma once

#include <string>
#include <vector>

namespace slabload::host {

// Runs `program` (looked for in PATH) on `input` and returns what it prints. Throws Status::file "gnuplot: ..." if it cannot be
// started, ends otherwise than with 0, or is not done after `timeout_s`. Nothing of this process is copied (posix_spawn), so it
// may hold MPI.
std::string output_of(const std::string& program, const std::vector<std::string>& arguments, const std::string& input,
                      double timeout_s);

}  // namespace slabload::host
