// The journal of a real run: the files of its folder, and a display. The recorder's lane calls it.
#pragma once

#include "troupe/actors/journal.hpp"
#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/telemetry/display.hpp"
#include "troupe/runtime/telemetry/metrics.hpp"
#include "troupe/runtime/telemetry/pattern_files.hpp"
#include "troupe/runtime/telemetry/run_folder.hpp"

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::telemetry {

/// All its functions throw std::runtime_error, naming the path, where a file cannot be written.
class file_journal : public journal {
 public:
  /// Writes topology.toml and the header of epochs.csv, and opens metrics.jsonl. `beside`: further files, anywhere, by
  /// the option that asks for them.
  file_journal(const plan& plan, run_folder folder, std::unique_ptr<display> shown,
               const std::map<pattern_option, std::filesystem::path>& beside = {});

  /// Ends a run that has begun and has no `end` record yet with one whose status is "failed".
  ~file_journal() override;
  file_journal(const file_journal&) = delete;
  file_journal& operator=(const file_journal&) = delete;

  /// Adds to metrics.jsonl and the files of options, and when an epoch is complete to epochs.csv. With the first record
  /// comes graph.svg.
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
    std::string text;  ///< All of it.
  };

  void write_weights(std::string_view name, const snapshot& weights) const;

  plan plan_;
  run_folder folder_;
  std::unique_ptr<display> shown_;
  std::ofstream metrics_;
  std::string epochs_;  ///< All of epochs.csv.
  std::vector<file_of_option> beside_;
  std::optional<record> latest_{};  ///< The last record that was written.
  bool drawn_{false};
};

}  // namespace troupe::telemetry
