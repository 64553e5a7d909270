// Topology files in and out.
#pragma once

#include "troupe/runtime/topology/error.hpp"
#include "troupe/runtime/topology/topology.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace troupe::topology {

/// Reads `file` and what it extends, lays `overrides` ("section.key=value", in order, the last wins) over it, checks
/// names, types, ranges and legal combinations, and fills in every default. Throws input_error.
topology load(const std::filesystem::path& file, const std::vector<std::string>& overrides = {});

/// As load(), from text; `name` stands for the file in errors, relative paths begin at its folder.
topology parse(const std::string& text, const std::filesystem::path& name,
               const std::vector<std::string>& overrides = {});

/// Prints TOML with every default filled in; parse(print(t)) = t.
std::string print(const topology& topology);

}  // namespace troupe::topology
