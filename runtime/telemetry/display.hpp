// What a run shows while it goes on. Knows nothing of files; one thread at a time.
#pragma once

#include "troupe/actors/messages.hpp"
#include "troupe/runtime/plan/plan.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>

namespace troupe::telemetry {

class display {
 public:
  virtual ~display() = default;

  /// Hears every record of the run.
  virtual void write(const record& line) = 0;

  /// Hears that every worker has completed `step` steps.
  virtual void progress(std::uint64_t step) = 0;
};

/// What a display must know of a run.
struct run_shape {
  std::uint64_t steps{0};  ///< Of the whole run.
  std::uint64_t steps_per_epoch{1};
  std::uint64_t samples_per_step{1};  ///< Of all workers.
  std::string sample{"img"};          ///< What one is called, in three letters.
  std::string folder;                 ///< Where the results will lie.
};

run_shape shape_of(const plan& plan, const std::string& folder);

struct live_options {
  unsigned columns{80};
  bool colour{false};
  /// Returns the time since some moment; tests bring their own.
  std::function<std::chrono::nanoseconds()> clock;
};

/// One line for each epoch with a progress bar, redrawn at most ten times a second.
std::unique_ptr<display> make_live_display(const run_shape& shape, std::ostream& out, const live_options& options);

/// One plain line for each epoch and each evaluation.
std::unique_ptr<display> make_line_display(const run_shape& shape, std::ostream& out);

/// The lines of metrics.jsonl.
std::unique_ptr<display> make_json_display(std::ostream& out);

/// Shows nothing.
std::unique_ptr<display> make_quiet_display();

enum class verbosity : std::uint8_t { normal, quiet, json };

/// Returns the display that fits standard output: live on a terminal, lines else.
std::unique_ptr<display> make_display(verbosity how, const run_shape& shape);

}  // namespace troupe::telemetry
