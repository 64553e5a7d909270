// Settings of the command line (--set).
#pragma once

#include "troupe/runtime/topology/mistakes.hpp"
#include "troupe/runtime/topology/toml.hpp"

#include <cstdint>
#include <string>

namespace troupe::topology {

/// Applies "section.key=value", the `number`-th override, to the tables of the file and removes keys that it excludes.
/// Adds what is wrong with the override to `found`.
void apply_override(toml::table& root, const std::string& text, std::uint32_t number, mistakes& found);

}  // namespace troupe::topology
