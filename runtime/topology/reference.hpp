// The table of keys as documentation and as a JSON Schema.
#pragma once

#include "troupe/actors/support/setting.hpp"

#include <string>

namespace troupe::topology {

/// Returns the text of docs/topology.md.
std::string reference_page();

/// Returns the table of exchanges in docs/algorithms.md.
std::string exchange_table();

/// Returns the JSON Schema (draft 2020-12) of a topology file, for editors that validate TOML.
std::string json_schema();

/// Returns the part of the JSON Schema that describes one key.
std::string json_schema(const setting& row);

}  // namespace troupe::topology
