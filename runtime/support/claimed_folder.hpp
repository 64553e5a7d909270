// Whose a folder is that a command is about to write many files into. It is free if it is absent or empty, ours if it
// has the marker of the command, a file that nothing else writes, and foreign otherwise. No file is removed or
// replaced in a foreign folder, unless the user says so.
#pragma once

#include <filesystem>
#include <string>

namespace troupe {

enum class claim : unsigned char { free, ours, foreign };

/// Returns whose a folder is. Only a regular file can be its marker.
claim claim_of(const std::filesystem::path& folder, const std::string& marker);

/// Describes what a foreign folder contains, and what may be done about it: the end of an error message.
std::string foreign_text(const std::filesystem::path& folder, const std::string& marker, const std::string& what);

/// Keeps other processes that write results out of a folder until it is destroyed.
class held_folder {
 public:
  held_folder() = default;
  ~held_folder();
  held_folder(const held_folder&) = delete;
  held_folder& operator=(const held_folder&) = delete;

  /// Locks the folder at `path`, and lets go of the one before. Returns false if another process has it. Throws
  /// std::system_error if it cannot be opened.
  bool lock(const std::filesystem::path& path);

  /// Returns whether the locked folder is still the one at `path`.
  bool is_at(const std::filesystem::path& path) const;

 private:
  int file_{-1};
};

}  // namespace troupe
