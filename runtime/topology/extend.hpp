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

/// Parses `text`, which is the content of the file `name`, and the files that it extends. Loads the plug-ins of the
/// first file that lists some, unless they `are_overridden`: their kinds decide which settings are inherited. Throws
/// input_error.
extended_file read_extended(const std::string& text, const std::filesystem::path& name, mistakes& found,
                            bool are_overridden = false);

/// Loads the plug-ins of a list, whose paths are relative to `folder`, or none if it is null. What cannot be loaded is
/// refused when the key is read.
void load_listed_plugins(const toml::array* list, const std::filesystem::path& folder);

/// Removes from the section of an exchange the settings that `kind` does not have, unless the command line sets them.
void make_way_for(const std::string& kind, toml::table& section);

/// Removes from the section of the optimizer what the optimizer of this name does not use, unless the command line has
/// set it.
void make_way_for_optimizer(const std::string& name, toml::table& section);

}  // namespace troupe::topology
