#include "troupe/models/storage/constants.hpp"

namespace troupe::models {

bool is_constant(const at::Tensor& buffer) {
  return buffer.scalar_type() != at::kFloat;
}

network::named_tensors constants_of(const network& net) {
  network::named_tensors constants;
  for (const auto& [name, tensor] : net.buffers()) {
    if (is_constant(tensor)) constants.emplace_back(name, tensor);
  }
  return constants;
}

}  // namespace troupe::models
