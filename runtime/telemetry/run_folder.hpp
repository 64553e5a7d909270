// The results folder of a run. All problems with it are detected when it is opened, before anything is started.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace troupe::telemetry {

/// Returns a new folder for the results of a topology: runs/<file stem>-<UTC time>.
std::filesystem::path default_folder(const std::filesystem::path& topology,
                                     std::chrono::system_clock::time_point now = std::chrono::system_clock::now());

/// Options of a results folder.
struct run_folder_options {
  std::filesystem::path out{};       ///< The folder; empty means default_folder().
  std::filesystem::path topology{};  ///< The topology file; its stem names the default folder.
  bool overwrite{false};             ///< Whether a run is replaced that is finished or has checkpoints.
  bool resume{false};                ///< Whether the run in the folder is continued, so that nothing is removed.
  bool clear_later{false};           ///< Whether the outputs of an earlier run are kept until clear() is called.
};

/// Throws input_error if a new run in this folder would replace one that is finished or has checkpoints.
void check_replaceable(const run_folder_options& options);

/// An open results folder, locked until it is destroyed.
class run_folder {
 public:
  /// Creates the folder, including its parents, and checks that it can be written. Removes the outputs of an earlier
  /// run, so that all files are of one run; refuses to do so if it is finished or has checkpoints, unless `overwrite`
  /// is set. With `resume`, the folder must exist, and nothing is removed. Throws input_error with path, reason and
  /// fix.
  explicit run_folder(const run_folder_options& options,
                      std::chrono::system_clock::time_point now = std::chrono::system_clock::now());

  const std::filesystem::path& path() const { return path_; }

  /// Removes the outputs of an earlier run.
  void clear() const;

  /// Returns the path of a file in the folder.
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

  /// Writes a whole file. Throws std::runtime_error, naming the path.
  void write(std::string_view name, std::string_view content) const;

 private:
  std::filesystem::path path_;
  std::shared_ptr<void> lock_;  ///< Held until the run ends, so that no two runs write to one folder.
};

}  // namespace troupe::telemetry
