#include "troupe/models/storage/tied.hpp"

#include "troupe/models/storage/constants.hpp"

#include <c10/core/TensorImpl.h>

#include <unordered_map>

namespace troupe::models {

std::vector<tied_name> tied_names_of(const network& net) {
  std::vector<tied_name> tied;
  std::unordered_map<const c10::TensorImpl*, std::string> seen;
  const auto add = [&](const std::string& name, const at::Tensor& tensor) {
    const auto [first, is_new] = seen.emplace(tensor.unsafeGetTensorImpl(), name);
    if (!is_new) tied.push_back({name, first->second});
  };
  for (const auto& [name, tensor] : net.parameters()) {
    if (tensor.requires_grad()) add(name, tensor);
  }
  for (const auto& [name, tensor] : net.buffers())
    if (!is_constant(tensor)) add(name, tensor);
  return tied;
}

}  // namespace troupe::models
