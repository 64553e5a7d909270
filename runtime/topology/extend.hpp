// Reads topology files and those that they extend.
#pragma once

#include "troupe/runtime/topology/mistakes.hpp"
#include "troupe/runtime/topology/toml.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace troupe::topology {

/// Returns the text of a file. Throws input_error.
std::string read_text(const std::filesystem::path& file, bool may_be_pipe = true);

/// A file, merged with the files that it extends.
struct extended_file {
  toml::table table;
  std::vector<std::filesystem::path> folders;  ///< Absolute folder of each file, where its relative paths start.
};

/// Parses `text`, which is the content of the file `name`, and the files that it extends. Throws input_error.
extended_file read_extended(const std::string& text, const std::filesystem::path& name, mistakes& found);

/// Removes from the section of an exchange the settings that `kind` does not have, unless the command line sets them.
void make_way_for(const std::string& kind, toml::table& section);

}  // namespace troupe::topology
