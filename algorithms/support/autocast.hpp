// torch.autocast for a scope: on the calling thread, operators that benefit compute in bfloat16, from weights that stay
// float32.
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

namespace troupe {

class autocast_scope {
 public:
  /// Has no effect if `wanted` is false.
  autocast_scope(bool wanted, c10::DeviceType device);

  /// Drops the bfloat16 copies of the weights, which would be outdated in the next step.
  ~autocast_scope();

  autocast_scope(const autocast_scope&) = delete;
  autocast_scope& operator=(const autocast_scope&) = delete;

 private:
  bool wanted_, enabled_before_{false};
  c10::DeviceType device_;
  c10::ScalarType type_before_{};
};

}  // namespace troupe
