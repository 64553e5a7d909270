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

/// The file that marks a folder as that of a run.
constexpr auto* run_marker = ".troupe-run";

/// Returns a new folder for the results of a topology: runs/<file stem>-<UTC time>.
std::filesystem::path default_folder(const std::filesystem::path& topology,
                                     std::chrono::system_clock::time_point now = std::chrono::system_clock::now());

/// Options of a results folder.
struct run_folder_options {
  std::filesystem::path out{};                  ///< The folder; empty means default_folder().
  std::filesystem::path topology{};             ///< The topology file; its stem names the default folder.
  std::vector<std::filesystem::path> inputs{};  ///< Other files that the run reads; empty paths are none.
  bool overwrite{false};    ///< Whether a run that has results is replaced, and the files of a run in a foreign folder.
  bool resume{false};       ///< Whether the run in the folder is continued, so that nothing is removed.
  bool clear_later{false};  ///< Whether the outputs of an earlier run are kept until clear() is called.
};

/// Throws input_error if a new run may not write to this folder: if it contains an input of the run where an output
/// would replace it, or, without `overwrite`, files that are not of a run, or a run with results. A run without results
/// has ended before its first epoch, evaluation and checkpoint, and has neither a trace nor a recording.
void check_replaceable(const run_folder_options& options);

/// Makes a folder that of a run if it is absent or empty: nodes other than the first write their parts of some outputs
/// to it. Throws input_error if it is foreign and `overwrite` is false.
void claim_for_parts(const std::filesystem::path& folder, bool overwrite);

/// Removes the outputs of a run from a folder, and keeps all other files. Throws std::filesystem::filesystem_error.
void remove_outputs(const std::filesystem::path& folder);

/// Makes a folder what it was before a run was to begin in it, if the run has not written anything. It is removed
/// unless it `existed`.
void disclaim(const std::filesystem::path& folder, bool existed);

/// An open results folder, locked until it is destroyed.
class run_folder {
 public:
  /// Creates the folder, including its parents, and checks that it can be written. Removes the outputs of an earlier
  /// run, so that all files are of one run; see check_replaceable() for what it refuses. With `resume`, the folder must
  /// exist, and nothing is removed. Throws input_error with path, reason and fix.
  explicit run_folder(const run_folder_options& options,
                      std::chrono::system_clock::time_point now = std::chrono::system_clock::now());

  const std::filesystem::path& path() const { return path_; }

  /// Removes the outputs of an earlier run.
  void clear() const {
    remove_outputs(path_);
    mark();
  }

  /// Makes the folder again if it was removed, or its file system is gone, since it was opened. Returns whether it did.
  /// Throws std::runtime_error if it cannot, or if the folder now belongs to somebody else.
  bool restore() const;

  /// Returns the path of a file in the folder.
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

  /// Writes a whole file. Throws std::runtime_error, naming the path.
  void write(std::string_view name, std::string_view content) const;

 private:
  void mark() const;

  std::filesystem::path path_;
  std::string mark_;                   ///< The text of its marker, by which it is known again.
  std::shared_ptr<held_folder> lock_;  ///< Held until the run ends, so that no two runs write to one folder.
};

}  // namespace troupe::telemetry
