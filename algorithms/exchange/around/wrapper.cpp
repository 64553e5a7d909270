#include "troupe/algorithms/exchange/around/wrapper.hpp"

#include <utility>

namespace troupe {

member_maker wrapped(member_maker innermost, const std::vector<wrapper>& wrappers) {
  auto make = std::move(innermost);
  for (const auto& next : wrappers) make = next.around(std::move(make));
  return make;
}

}  // namespace troupe
