// Looks up values by the path of a key, such as "run.seed" or "exchange.0.kind", or of its section.
#pragma once

#include <map>
#include <string>

namespace troupe::topology {

/// Returns the value of `path`, or of the nearest section that encloses it, or a default value.
template <class Value>
Value of_enclosing(const std::map<std::string, Value>& known, std::string path) {
  while (true) {
    if (const auto found = known.find(path); found != known.end()) return found->second;
    const auto dot = path.rfind('.');
    if (dot == std::string::npos) return {};
    path.resize(dot);
  }
}

}  // namespace troupe::topology
