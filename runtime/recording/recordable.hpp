// Which runs can be recorded.
#pragma once

#include "troupe/runtime/plan/plan.hpp"

namespace troupe::recording {

/// Throws input_error if a result of the plan depends on an order that a recording does not contain: that of writes to
/// a shared memory without a lock, or that in which workers, rather than servers, receive the parts of an exchange.
void check_recordable(const plan& plan);

}  // namespace troupe::recording
