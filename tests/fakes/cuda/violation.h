// The end of a process that broke a rule.
#pragma once

#include <cstdarg>

namespace fakecuda {

// By the launcher's environment, 0 without one.
int rank();

// Prints "VIOLATION: [rank R] ..." and ends the process with status 86.
[[noreturn]] void violation(const char* format, ...) __attribute__((format(printf, 1, 2)));
[[noreturn]] void violation_list(const char* format, std::va_list arguments);

}  // namespace fakecuda
