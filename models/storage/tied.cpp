#include "troupe/models/storage/tied.hpp"

#include <c10/core/TensorImpl.h>

#include <unordered_map>

namespace troupe::models {

std::vector<tied_name> tied_names_of(const network& net) {
  std::vector<tied_name> tied;
  std::unordered_map<const c10::TensorImpl*, std::string> seen;
  for (const auto& [name, tensor] : net.parameters()) {
    if (!tensor.requires_grad()) continue;
    const auto [first, is_new] = seen.emplace(tensor.unsafeGetTensorImpl(), name);
    if (!is_new) tied.push_back({name, first->second});
  }
  return tied;
}

}  // namespace troupe::models
