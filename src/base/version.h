// The version of the program, given by the Makefile.
#pragma once

#ifndef SLABLOAD_VERSION
#define SLABLOAD_VERSION "0.1.0"
#endif

namespace slabload {

inline constexpr const char* kVersion = SLABLOAD_VERSION;

}  // namespace slabload
