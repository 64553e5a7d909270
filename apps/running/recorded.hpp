// What `troupe run --record` and `troupe replay` share.
#pragma once

#include "troupe/apps/running/training.hpp"
#include "troupe/runtime/recording/deliveries_file.hpp"

#include <ATen/core/Tensor.h>

namespace troupe::apps {

/// Returns the version, topology and inputs that a recording of this run belongs to.
recording::origin origin_of(const training& what, const at::Tensor& initial);

}  // namespace troupe::apps
