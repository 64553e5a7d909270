#include "troupe/actors/exchange/registry.hpp"

#include "troupe/actors/exchange/all_reduce.hpp"
#include "troupe/actors/exchange/star.hpp"

#include <algorithm>

namespace troupe {

const std::vector<exchange_kind>& exchange_kinds() {
  static const std::vector<exchange_kind> kinds{star_kind(), all_reduce_kind()};
  return kinds;
}

const exchange_kind* find_exchange(const std::string& name) {
  const auto& kinds = exchange_kinds();
  const auto found = std::find_if(kinds.begin(), kinds.end(), [&](const auto& kind) { return kind.name == name; });
  return found == kinds.end() ? nullptr : &*found;
}

std::string name_of(slot what) {
  switch (what) {
    case slot::parameters:
      return "parameters";
    case slot::gradient:
      return "gradient";
    case slot::change:
      return "change";
  }
  return {};
}

}  // namespace troupe
