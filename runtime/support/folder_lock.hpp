// Keeps two processes from writing into one folder at the same time.
#pragma once

#include <filesystem>
#include <string>

namespace troupe {

/// Keeps other processes that write results out of a folder until it is destroyed.
class held_folder {
 public:
  held_folder() = default;
  ~held_folder();
  held_folder(const held_folder&) = delete;
  held_folder& operator=(const held_folder&) = delete;

  /// Locks the folder at `path` and releases the previous one. Returns false if another process has locked it. Throws
  /// std::system_error if it cannot be opened. Folders on a file system without locks, such as those of some clusters,
  /// are accepted, but not protected.
  bool lock(const std::filesystem::path& path);

  /// Like lock(), but waits until another process releases the folder. Calls `waiting` first, if given.
  void lock_when_free(const std::filesystem::path& path, void (*waiting)(const std::string&) = nullptr);

  /// Returns whether the locked folder is still the one at `path`.
  bool is_at(const std::filesystem::path& path) const;

 private:
  bool take(const std::filesystem::path& path, int how);

  int file_{-1};
};

}  // namespace troupe
