// Whether a topology may continue a run that was started with another one.
#pragma once

#include "troupe/runtime/topology/topology.hpp"

#include <string>

namespace troupe::topology {

/// Throws input_error, naming each key with its old and its new value, if `now` differs from the topology with the
/// canonical text `before` in a setting that must stay the same when a run is continued. `out`, the folder of that run,
/// is used in the message. A key that `before` lacks had its default in that run. `before` is untrusted.
void check_resumable(const std::string& before, const topology& now, const std::string& out);

}  // namespace troupe::topology
