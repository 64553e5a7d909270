// Whether a topology may continue a run that was started with another one.
#pragma once

#include "troupe/runtime/topology/topology.hpp"

#include <string>
#include <vector>

namespace troupe::topology {

/// A setting that changes when a run is continued. Both values are printable texts; "unset" stands for no value.
struct changed_setting {
  std::string key, before, now;
  /// Whether it changes how the run trains or when it stops early, so that a run that has stopped early continues.
  bool of_training{false};
};

/// Returns both values, such as "optimizer.lr was 0.1 and is 0.05".
std::string described(const changed_setting& change);

/// Returns the settings that have changed, except for those of nodes, connections and links. Throws input_error, naming
/// each key with its old and its new value, if `now` differs from the topology with the canonical text `before` in a
/// setting that must stay the same when a run is continued. `out`, the folder of that run, is used in the message. A
/// key that `before` lacks had its default in that run. `before` is untrusted.
std::vector<changed_setting> check_resumable(const std::string& before, const topology& now, const std::string& out);

}  // namespace troupe::topology
