// The journal of a real run: writes the files of the results folder and updates the display. Called by the recorder's
// lane.
#pragma once

#include "troupe/actors/journal.hpp"
#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/telemetry/display.hpp"
#include "troupe/runtime/telemetry/metrics.hpp"
#include "troupe/runtime/telemetry/pattern_files.hpp"
#include "troupe/runtime/telemetry/run_folder.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::telemetry {

/// Writes the files of a run. All functions throw std::runtime_error, naming the path, if a file cannot be written.
class file_journal : public journal {
 public:
  /// Writes topology.toml and the header of epochs.csv, and opens metrics.jsonl. `beside`: paths of additional files,
  /// by the option that requests them.
  file_journal(const plan& plan, run_folder folder, std::unique_ptr<display> shown,
               const std::map<pattern_option, std::filesystem::path>& beside = {});

  /// Writes an `end` record with status "failed" if the run has begun and has no `end` record.
  ~file_journal() override;
  file_journal(const file_journal&) = delete;
  file_journal& operator=(const file_journal&) = delete;

  /// Appends to metrics.jsonl and the files of options and, at the end of an epoch, to epochs.csv. The first record
  /// also writes graph.svg.
  void write(const record& line) override;

  void progress(std::uint64_t step) override;

  /// Writes model_best.safetensors.
  void keep(const snapshot& best) override;

  /// Writes model.safetensors.
  void save(const snapshot& result) override;

 private:
  struct file_of_option {
    pattern_option option{};
    std::filesystem::path path;
    std::string text;  ///< Its whole content.
  };

  void write_weights(std::string_view name, const snapshot& weights) const;

  plan plan_;
  run_folder folder_;
  std::unique_ptr<display> shown_;
  std::ofstream metrics_;
  std::string epochs_;  ///< The whole content of epochs.csv.
  std::vector<file_of_option> beside_;
  std::uint64_t progress_{0};  ///< Steps that every worker has completed.
  std::chrono::steady_clock::time_point begun_{};
  std::optional<record> latest_{};  ///< The last record that was written.
  bool drawn_{false};
};

}  // namespace troupe::telemetry
