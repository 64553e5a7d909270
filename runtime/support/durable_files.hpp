// The file operations that write a checkpoint. What they have written survives a power failure. They are
// virtual so that tests can make each of them fail.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace troupe {

/// All functions throw std::runtime_error with the path and the reason given by the system.
class durable_files {
 public:
  virtual ~durable_files() = default;

  virtual void make_folder(const std::filesystem::path& path);

  /// Creates a file that consists of these pieces, and flushes it to the disk. It must not exist yet.
  virtual void write(const std::filesystem::path& path, const std::vector<std::string_view>& pieces);

  /// Flushes a file or a folder to the disk.
  virtual void sync(const std::filesystem::path& path);

  /// Gives a file a second name, or copies it if the file system does not support that.
  virtual void link(const std::filesystem::path& from, const std::filesystem::path& to);

  /// Renames a folder. If a folder with the new name exists, the two are exchanged atomically where the system supports
  /// it, and the old one is then removed.
  virtual void replace(const std::filesystem::path& from, const std::filesystem::path& to);

  /// Removes a file, or a folder and everything in it. It may be missing.
  virtual void remove(const std::filesystem::path& path);
};

}  // namespace troupe
