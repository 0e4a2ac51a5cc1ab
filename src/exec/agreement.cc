#include "exec/agreement.h"

namespace slabload {

void Agreement::note(const Error& error, std::uint32_t tensor) {
  if (error.second_hand()) {
    fills_.break_off(error);
    return;
  }
  if (failure) return;
  failure = run_.about(error, tensor);
  // A device that failed may take the transfers with it that other ranks wait for.
  if (!run_.parts.device.host_accessible()) fills_.break_off(*failure);
  if (run_.in_lockstep) run_.leave(*failure);
}

void Agreement::reach(const char* what) {
  ScopedTimer timer(run_.stats.fill_s);
  run_.parts.monitor.waiting(what, nullptr);
  if (!failure) failure = fills_.failure();
  run_.parts.control.agree(failure);
  if (fills_.broken()) fail(Status::internal, "the transfers were given up, but no rank says why");
}

void Agreement::settle() {
  try {
    fills_.end();
    Mark last = run_.parts.device.mark();
    run_.wait([&] { return run_.parts.device.passed(last).has_value(); });
  } catch (const Error&) {
    // The first error is the one to tell.
  }
}

}  // namespace slabload
