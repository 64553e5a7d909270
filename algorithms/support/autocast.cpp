#include "troupe/algorithms/support/autocast.hpp"

#include <ATen/autocast_mode.h>

namespace troupe {

// The constructor and the destructor do what torch.autocast's __enter__ and __exit__ do.
autocast_scope::autocast_scope(bool wanted, c10::DeviceType device) : wanted_(wanted), device_(device) {
  if (!wanted_) return;
  enabled_before_ = at::autocast::is_autocast_enabled(device_);
  type_before_ = at::autocast::get_autocast_dtype(device_);
  at::autocast::set_autocast_enabled(device_, true);
  at::autocast::set_autocast_dtype(device_, at::kBFloat16);
  at::autocast::increment_nesting();
}

autocast_scope::~autocast_scope() {
  if (!wanted_) return;
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, enabled_before_);
  at::autocast::set_autocast_dtype(device_, type_before_);
}

}  // namespace troupe
