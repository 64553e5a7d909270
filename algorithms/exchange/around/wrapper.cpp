#include "troupe/algorithms/exchange/around/wrapper.hpp"

#include <utility>

namespace troupe {

member_maker wrapped(member_maker innermost, const std::vector<wrapper>& wrappers) {
  auto make = std::move(innermost);
  for (const auto& next : wrappers)
    make = [next, inner = std::move(make)](const member_options& own) { return next(own, inner); };
  return make;
}

}  // namespace troupe
