#include "segv.h"

#include <signal.h>

#include "memory.h"
#include "pinned.h"
#include "violation.h"

namespace fakecuda {
namespace {

struct sigaction previous;

void report(std::uint64_t address) {
  if (DeviceMemory* device = device_memory_if_used(); device && device->holds(address))
    violation("host touches device memory at 0x%llx: %s", static_cast<unsigned long long>(address),
              device->blocks().describe(address).c_str());
  PinnedMemory* const pinned = pinned_memory_if_used();
  if (!pinned || !pinned->holds(address)) return;
  if (const Flight* flight = pinned->flight_at(address))
    violation("in flight: host %s pinned memory at 0x%llx, %s, while %s has it in flight",
              flight->target ? "touches" : "writes to", static_cast<unsigned long long>(address),
              pinned->blocks().describe(address).c_str(), flight->label->text().c_str());
  violation("out of bounds or after free: host touches pinned memory at 0x%llx: %s",
            static_cast<unsigned long long>(address), pinned->blocks().describe(address).c_str());
}

void on_fault(int, siginfo_t* info, void*) {
  report(reinterpret_cast<std::uint64_t>(info->si_addr));
  // The instruction runs again and faults for the one who watched before.
  sigaction(SIGSEGV, &previous, nullptr);
}

}  // namespace

void watch_faults() {
  struct sigaction current;
  sigaction(SIGSEGV, nullptr, &current);
  if ((current.sa_flags & SA_SIGINFO) && current.sa_sigaction == on_fault) return;
  previous = current;
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigaction(SIGSEGV, &action, nullptr);
}

}  // namespace fakecuda
