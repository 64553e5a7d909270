// Reads and prints topology files.
#pragma once

#include "troupe/files/error.hpp"
#include "troupe/runtime/topology/topology.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace troupe::topology {

/// Reads `file` and the files that it extends, applies `overrides` ("section.key=value", in order; the last one wins),
/// checks names, types, ranges and combinations, and fills in every default. Throws input_error.
topology load(const std::filesystem::path& file, const std::vector<std::string>& overrides = {});

/// Does the same as load(), but from text. `name` is the file name in messages; relative paths start at its folder.
topology parse(const std::string& text, const std::filesystem::path& name,
               const std::vector<std::string>& overrides = {});

/// Returns the topology as TOML with every default filled in; parse(print(t)) = t.
std::string print(const topology& topology);

}  // namespace troupe::topology
