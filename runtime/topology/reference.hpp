// The table of keys for readers and for editors.
#pragma once

#include "troupe/actors/support/setting.hpp"

#include <string>

namespace troupe::topology {

/// Returns docs/topology.md.
std::string reference_page();

/// Returns the JSON Schema (draft 2020-12) of a topology file, which editors with TOML support check against.
std::string json_schema();

/// Returns the part of it that describes one key.
std::string json_schema(const setting& row);

}  // namespace troupe::topology
