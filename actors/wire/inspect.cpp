#include "troupe/actors/wire/inspect.hpp"

namespace troupe::detail {

std::string shape_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return "[]";
  std::string text = "[";
  for (const auto extent : tensor.sizes()) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + "]";
}

}  // namespace troupe::detail
