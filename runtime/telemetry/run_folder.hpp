// The results folder of a run. All problems with it are detected when it is opened, before anything is started.
#pragma once

#include "troupe/runtime/support/folder_lock.hpp"

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::telemetry {

/// Name of the file that marks the results folder of a run.
constexpr auto* run_marker = ".troupe-run";

/// Returns a new folder for the results of a topology: runs/<file stem>-<UTC time>.
std::filesystem::path default_folder(const std::filesystem::path& topology,
                                     std::chrono::system_clock::time_point now = std::chrono::system_clock::now());

/// Options of a results folder.
struct run_folder_options {
  std::filesystem::path out{};                  ///< The folder; empty means default_folder().
  std::filesystem::path topology{};             ///< The topology file; its stem names the default folder.
  std::vector<std::filesystem::path> inputs{};  ///< Other files that the run reads; empty paths are ignored.
  bool overwrite{false};    ///< Whether to replace a run that has results, and the files of a run in a foreign folder.
  bool resume{false};       ///< Whether the run in the folder is continued, so that nothing is removed.
  bool clear_later{false};  ///< Whether the outputs of an earlier run are kept until clear() is called.
};

/// Throws input_error if a new run may not write to this folder: if an output would replace an input of the run or,
/// without `overwrite`, if the folder contains files that do not belong to a run, or a run with results. A run without
/// results ended before its first epoch, evaluation and checkpoint, and has neither a trace nor a recording.
void check_replaceable(const run_folder_options& options);

/// Creates and marks a results folder if it is absent or empty. For nodes other than the first, which write their parts
/// of some outputs to it. Throws input_error if it is foreign and `overwrite` is false.
void claim_for_parts(const std::filesystem::path& folder, bool overwrite);

/// Removes the outputs of a run from a folder, and keeps all other files. Throws std::filesystem::filesystem_error.
void remove_outputs(const std::filesystem::path& folder);

/// Removes the marker of a results folder if the run has not written anything, and the folder itself unless it
/// `existed`.
void disclaim(const std::filesystem::path& folder, bool existed);

/// An open results folder, locked until it is destroyed.
class run_folder {
 public:
  /// Creates the folder, including its parents, and checks that it can be written. Removes the outputs of an earlier
  /// run, so that all files belong to one run; see check_replaceable() for what it refuses. With `resume`, the folder
  /// must exist, and nothing is removed. Throws input_error with path, reason and fix.
  explicit run_folder(const run_folder_options& options,
                      std::chrono::system_clock::time_point now = std::chrono::system_clock::now());

  const std::filesystem::path& path() const { return path_; }

  /// Removes the outputs of an earlier run.
  void clear() const {
    remove_outputs(path_);
    mark();
  }

  /// Creates the folder again if it, or its file system, has disappeared since it was opened. Returns whether it did.
  /// Throws std::runtime_error if it cannot, or if the folder now has the files of another run or program.
  bool restore() const;

  /// Returns the path of a file in the folder.
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

  /// Writes a whole file. Throws std::runtime_error, naming the path.
  void write(std::string_view name, std::string_view content) const;

 private:
  void mark() const;

  std::filesystem::path path_;
  std::string mark_;                   ///< Text of the marker, which identifies the folder as that of this run.
  std::shared_ptr<held_folder> lock_;  ///< Held until the run ends, so that no two runs write to one folder.
};

}  // namespace troupe::telemetry
