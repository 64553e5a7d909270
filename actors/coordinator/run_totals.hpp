// The totals from which the metrics lines of a run are computed: sums over training, times, bytes, staleness.
#pragma once

#include "troupe/actors/coordinator/result.hpp"
#include "troupe/actors/coordinator/run_clock.hpp"
#include "troupe/actors/coordinator/training_tally.hpp"
#include "troupe/algorithms/messages/messages.hpp"
#include "troupe/algorithms/messages/report.hpp"
#include "troupe/algorithms/messages/state_dict.hpp"
#include "troupe/algorithms/rules/learning_rate.hpp"
#include "troupe/algorithms/rules/schedule.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace troupe::rules {

struct total_options {
  schedule when;
  std::uint32_t workers{1};
  double lr{0};                  ///< Learning rate before the schedule is applied.
  learning_rate lr_over_time{};  ///< Schedule factor applied to the learning rate.
};

class run_totals {
 public:
  explicit run_totals(total_options options = {}) : options_(std::move(options)) {}

  run_clock clock;

  /// Counts the samples of a milestone. Call it once for each milestone, before the report to which the milestone
  /// belongs. That may be a later report than the next one, because workers that do not wait for each other may be
  /// epochs apart.
  void count_arrival(const milestone& one) { arrived_ += one.sample_count; }

  /// Adds the milestones of all workers since the last report and returns the report of `step`.
  report report_of(std::uint64_t step, const std::vector<milestone>& all, run_clock::time_point now);

  /// Sets the number of updates that the servers have made and the staleness of the gradients applied since the last
  /// line. `are_replicas`: each server has all parameters; otherwise each has a share of them.
  void count_updates(const std::vector<holding>& held, bool are_replicas, record& line);

  /// Sets the consensus distances of a line.
  void note_distances(const step_result& found, record& line);

  /// Returns the last line of a run whose last report was `latest`.
  record end_of(const record& latest, const std::string& status, const std::string& stopped_by = "") const;

  /// Returns the last step for which report_of() was called.
  std::optional<std::uint64_t> reported() const { return reported_; }

  /// Returns a line about the run at `now` after `step` steps.
  record line_at(std::uint64_t step, run_clock::time_point now) const;

  /// Return and restore all sums and the clock, which continues at the time at which state() was called.
  state_dict state(run_clock::time_point now) const;
  void restore(const state_dict& from, run_clock::time_point now);

 private:
  std::uint64_t bytes_sent() const;
  std::vector<worker_total> workers() const;  ///< By rank.

  total_options options_;
  std::optional<std::uint64_t> reported_;
  std::map<rank_id, worker_total> of_workers_;
  staleness_tally staleness_;           ///< As of the last line.
  std::optional<double> distance_max_;  ///< Largest consensus distance before an exchange.
  training_tally of_run_, of_epoch_;    ///< Since the first step, and since the last end of an epoch.
  /// Training time at the last report and at the last end of an epoch.
  double interval_start_{0}, epoch_start_{0};
  double data_wait_{0}, computing_{0};  ///< Seconds of all compute actors over the whole run.
  std::optional<double> train_loss_, train_accuracy_;
  /// Samples of all milestones that have arrived, and of those that had arrived at the last report. Samples per
  /// second are computed from the difference.
  std::int64_t arrived_{0}, arrived_before_{0};
};

}  // namespace troupe::rules
