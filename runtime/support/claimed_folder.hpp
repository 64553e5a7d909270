// The owner of a folder into which a command is about to write many files. The folder is free if it is absent or empty,
// ours if it has the marker of the command, a file that nothing else writes, and foreign otherwise. No file is removed
// or replaced in a foreign folder unless the user requests it.
#pragma once

#include <filesystem>
#include <string>

namespace troupe {

enum class claim : unsigned char { free, ours, foreign };

/// Returns whether a folder is free, ours or foreign. Only a regular file can be its marker.
claim claim_of(const std::filesystem::path& folder, const std::string& marker);

/// Describes what a foreign folder contains, and what may be done about it: the end of an error message.
std::string foreign_text(const std::filesystem::path& folder, const std::string& marker, const std::string& what);

}  // namespace troupe
