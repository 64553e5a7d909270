#include "troupe/runtime/topology/topology.hpp"

namespace troupe::topology {

std::string given_keys::place_of(std::string key) const {
  while (true) {
    if (const auto found = places.find(key); found != places.end()) return found->second;
    const auto dot = key.rfind('.');
    if (dot == std::string::npos) return {};
    key.resize(dot);
  }
}

}  // namespace troupe::topology
