// Touches of memory that the host must leave alone now.
#pragma once

namespace fakecuda {

// Takes SIGSEGV, and passes on what concerns other memory. Called again, takes it back from who has taken it
// since.
void watch_faults();

}  // namespace fakecuda
