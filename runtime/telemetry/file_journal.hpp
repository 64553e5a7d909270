// The journal of a real run: writes the files of the results folder and updates the display. Called by the recorder's
// lane. Only the final weights have to be written; everything else may wait (see side_outputs.hpp).
#pragma once

#include "troupe/algorithms/messages/journal.hpp"
#include "troupe/runtime/checkpoint/manifest.hpp"
#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/support/appended_file.hpp"
#include "troupe/runtime/support/durable_files.hpp"
#include "troupe/runtime/telemetry/display.hpp"
#include "troupe/runtime/telemetry/feed.hpp"
#include "troupe/runtime/telemetry/metrics.hpp"
#include "troupe/runtime/telemetry/pattern_files.hpp"
#include "troupe/runtime/telemetry/run_folder.hpp"
#include "troupe/runtime/telemetry/side_outputs.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::telemetry {

struct file_journal_options {
  std::map<pattern_option, std::filesystem::path> beside{};  ///< Additional files, by the option that requests them.
  bool continues{false};         ///< Whether to append to existing files rather than start new ones.
  std::optional<origin> from{};  ///< Written on the first line of metrics.jsonl.
  std::vector<topology::changed_setting> changed{};  ///< Settings that differ from the continued run.
  /// Manifest of checkpoints, except for what changes during the run. Without it, no checkpoints are written.
  std::optional<checkpoint::manifest> about{};
  std::function<std::string(const plan&)> drawing{};  ///< Returns the content of graph.svg; unset means no such file.
  std::shared_ptr<side_outputs> outputs = std::make_shared<side_outputs>();  ///< Shared with other writers of the run.
  std::shared_ptr<telemetry::feed> feed{};  ///< Receives the lines of metrics.jsonl and the progress; may be null.
  std::shared_ptr<durable_files> disk = std::make_shared<durable_files>();
  /// The clock from which the duration of a failed run is computed.
  std::function<std::chrono::nanoseconds()> now = [] { return std::chrono::steady_clock::now().time_since_epoch(); };
};

/// Writes the files of a run. The constructor, save() and write_links() throw std::runtime_error, naming the path, if a
/// file cannot be written. All other functions warn and keep the content for a later attempt.
class file_journal : public journal {
 public:
  /// Writes topology.toml, and starts epochs.csv, metrics.jsonl and the files of options, or continues them.
  file_journal(const plan& plan, run_folder folder, std::unique_ptr<display> shown,
               const file_journal_options& options = {});

  /// See conclude().
  ~file_journal() override;
  file_journal(const file_journal&) = delete;
  file_journal& operator=(const file_journal&) = delete;

  /// Writes an `end` record with status "failed" unless the run has one or has not begun, as the destructor does. Any
  /// thread may call it, also while another one writes.
  void conclude();

  /// Appends to metrics.jsonl and the files of options and, at the end of an epoch, to epochs.csv. The first record
  /// also writes graph.svg.
  void write(const record& line) override;

  void progress(std::uint64_t step) override;
  void progress_by_worker(const std::vector<std::uint64_t>& steps) override;

  /// Writes model_best.safetensors.
  void keep(const snapshot& best) override;

  /// Writes model.safetensors. Throws if the weights are not finite, unless run.stop_on_non_finite is false. If
  /// writing fails, retries for half a minute, then writes the weights to the folder for temporary files and throws.
  void save(const snapshot& result) override;

  /// Writes a checkpoint, or warns that it cannot be written. Returns its files if `copied` is set and a second node
  /// keeps copies.
  std::optional<state_dict> checkpoint(const run_state& state, bool copied) override;

  bool wrote_checkpoint() const override { return wrote_checkpoint_; }

  void report_overdue_copy(std::uint64_t step) override;

  /// Writes links.csv if the topology has links: the traffic that they have carried on this node since the run began or
  /// was continued.
  void write_links(const std::vector<emulation::wire_usage>& links) const;

  const std::filesystem::path& folder() const { return folder_.path(); }

  /// Returns the status of the `end` record, or "" as long as there is none.
  std::string status() const { return latest_ ? latest_->status : ""; }

 private:
  struct file_of_option {
    pattern_option option{};
    std::filesystem::path path;
    std::string text;  ///< Its whole content.
  };

  void restore_folder();
  void draw() const;
  void write_now(const std::string& name, const std::string& content);
  checkpoint::manifest manifest_now();
  void write_weights(const std::filesystem::path& path, const snapshot& weights) const;

  plan plan_;
  run_folder folder_;
  std::unique_ptr<display> shown_;
  std::shared_ptr<side_outputs> outputs_;
  appended_file metrics_;
  std::string epochs_;  ///< The whole content of epochs.csv.
  std::vector<file_of_option> beside_;
  std::optional<origin> from_;
  std::vector<topology::changed_setting> changed_;
  std::optional<checkpoint::manifest> about_;
  std::function<std::string(const plan&)> drawing_;
  std::shared_ptr<telemetry::feed> feed_;
  std::shared_ptr<durable_files> disk_;
  std::uint64_t progress_{0};  ///< Steps that every worker has completed.
  std::function<std::chrono::nanoseconds()> now_;
  std::chrono::nanoseconds begun_{0};
  double seconds_before_{0};        ///< `seconds` of the first record: the time before the run was continued.
  std::optional<record> latest_{};  ///< The last record that was written.
  bool drawn_{false};
  bool restored_{false};              ///< Whether the folder was created again and still lacks known files.
  bool checkpoint_failed_{false};     ///< Whether the last checkpoint or its copy could not be written.
  bool wrote_checkpoint_{false};      ///< Whether the last checkpoint was written.
  std::recursive_mutex mutex_;  ///< The lane of the recorder and conclude() use the journal.
};

}  // namespace troupe::telemetry
