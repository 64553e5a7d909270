#include "troupe/runtime/topology/topology.hpp"

#include "troupe/runtime/topology/enclosing.hpp"

namespace troupe::topology {

std::string given_keys::place_of(const std::string& key) const {
  return of_enclosing(places, key);
}

}  // namespace troupe::topology
