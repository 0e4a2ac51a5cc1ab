// The check of all accesses of an operation, when it is put into its stream.
#pragma once

#include <memory>
#include <vector>

#include "order.h"

namespace fakecuda {

// Bounds, life, order, and that what is read was written. Accesses of no bytes are left out. Ends the process
// if something is wrong; else remembers the accesses, and has pinned memory in flight.
void admit(const std::vector<Access>& accesses, const std::shared_ptr<const Label>& label,
           const Clock& clock);

}  // namespace fakecuda
