// The progress display of a run. It does not handle files; only one thread may use it at a time.
#pragma once

#include "troupe/actors/coordinator/verdicts.hpp"
#include "troupe/algorithms/messages/messages.hpp"
#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/telemetry/origin.hpp"
#include "troupe/runtime/topology/resumable.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::telemetry {

/// Shows the progress of a run.
class display {
 public:
  virtual ~display() = default;

  /// Receives every record of the run.
  virtual void write(const record& line) = 0;

  /// Receives the number of steps that every worker has completed.
  virtual void progress(std::uint64_t step) = 0;

  /// Receives the steps of each worker; see journal::progress_by_worker().
  virtual void progress_by_worker(const std::vector<std::uint64_t>& /*steps*/) {}

  /// Clears the line that is being updated, if there is one, so that a message can be printed.
  virtual void make_room() {}
};

/// The facts about a run that a display needs.
struct run_shape {
  std::uint64_t steps{0};  ///< Steps of the whole run.
  std::uint64_t steps_per_epoch{1};
  std::uint64_t samples_per_step{1};                 ///< Samples of all workers in one step.
  std::string sample{"img"};                         ///< Three-letter name of a sample.
  std::string folder{};                              ///< The results folder.
  rules::stop_options stop{};                        ///< When evaluations stop the run early.
  std::optional<origin> about{};                     ///< Printed with the lines of metrics.jsonl.
  std::vector<topology::changed_setting> changed{};  ///< Settings that differ from the continued run; printed as well.
};

/// Returns the facts that a display needs about the run of `plan`.
run_shape shape_of(const plan& plan, const std::string& folder);

/// Options of the live display.
struct live_options {
  unsigned columns{80};
  bool colour{false};
  /// Returns the time since a fixed moment. Tests supply their own clock.
  std::function<std::chrono::nanoseconds()> clock;
};

/// Makes a display with one line and a progress bar per epoch, redrawn at most ten times per second.
std::unique_ptr<display> make_live_display(const run_shape& shape, std::ostream& out, const live_options& options);

/// Makes a display with one plain line per epoch and per evaluation.
std::unique_ptr<display> make_line_display(const run_shape& shape, std::ostream& out);

/// Makes a display that prints the lines of metrics.jsonl.
std::unique_ptr<display> make_json_display(const run_shape& shape, std::ostream& out);

/// Makes a display that shows nothing.
std::unique_ptr<display> make_quiet_display();

enum class verbosity : std::uint8_t { normal, quiet, json };

/// Returns the display that suits standard output: live on a terminal, plain lines otherwise.
std::unique_ptr<display> make_display(verbosity how, const run_shape& shape);

}  // namespace troupe::telemetry
