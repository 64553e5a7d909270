// Settings of the command line (--set).
#pragma once

#include "troupe/runtime/topology/mistakes.hpp"
#include "troupe/runtime/topology/toml.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::topology {

/// Applies "section.key=value", the `number`-th override, to the tables of the file and removes keys that it excludes.
/// Adds what is wrong with the override to `found`.
void apply_override(toml::table& root, const std::string& text, std::uint32_t number, mistakes& found);

/// Loads the plug-ins that overrides list, before files are merged; see read_extended(). Returns whether they list any.
bool load_overriding_plugins(const std::vector<std::string>& overrides);

}  // namespace troupe::topology
