// The folder that receives what a run writes. Whatever is wrong with it is found when it is opened, before anything
// is started.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace troupe::telemetry {

struct run_folder_options {
  std::filesystem::path out{};       ///< Empty: runs/<file stem>-<UTC time>.
  std::filesystem::path topology{};  ///< Whose stem names the default folder.
  bool overwrite{false};             ///< Replaces a finished run; else it is refused.
};

class run_folder {
 public:
  /// Makes the folder, parents included, and checks that it can be written. Of a finished run that may be replaced,
  /// the outputs are removed, so that what lies there afterwards is of one run. Throws input_error: path, reason, mend.
  explicit run_folder(const run_folder_options& options,
                      std::chrono::system_clock::time_point now = std::chrono::system_clock::now());

  const std::filesystem::path& path() const { return path_; }

  /// Returns the path of a file in it.
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

  /// Writes a file as a whole. Throws std::runtime_error naming the path.
  void write(std::string_view name, std::string_view content) const;

 private:
  std::filesystem::path path_;
  std::shared_ptr<void> lock_;  ///< Held until the run has ended: no two runs write into one folder.
};

}  // namespace troupe::telemetry
