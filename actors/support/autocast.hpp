// torch.autocast for a scope: on the calling thread, operators that gain by it compute in bfloat16, from weights that
// stay float32.
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

namespace troupe {

class autocast_scope {
 public:
  /// Does nothing where it is not `wanted`.
  autocast_scope(bool wanted, c10::DeviceType device);

  /// Forgets the weights' copies in bfloat16, which the next step would find outdated.
  ~autocast_scope();

  autocast_scope(const autocast_scope&) = delete;
  autocast_scope& operator=(const autocast_scope&) = delete;

 private:
  bool wanted_, enabled_before_{false};
  c10::DeviceType device_;
  c10::ScalarType type_before_{};
};

}  // namespace troupe
