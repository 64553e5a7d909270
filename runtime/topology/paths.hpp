// Paths of keys, such as "run.seed" or "exchange.0.kind", and their names for people.
#pragma once

#include "troupe/runtime/topology/topology.hpp"

#include <cstddef>
#include <string>

namespace troupe::topology {

/// Returns the path of a table of a repeated section, such as "exchange.0".
std::string table_path(const std::string& section, std::size_t index);

/// Returns the path with the name of an exchange or node in place of its number: "exchange.ring.kind" for
/// "exchange.0.kind". This is the key of given_keys.
std::string named_path(const topology& file, const std::string& path);

/// Returns the path as messages show it. It is named_path(), but without the name of the only exchange or node:
/// "exchange.kind".
std::string readable_path(const topology& file, const std::string& path);

}  // namespace troupe::topology
