#include "troupe/models/storage/constants.hpp"

namespace troupe::models {

network::named_tensors constants_of(const network& net) {
  network::named_tensors constants;
  for (const auto& [name, tensor] : net.buffers()) {
    if (!tensor.is_floating_point()) constants.emplace_back(name, tensor);
  }
  return constants;
}

}  // namespace troupe::models
