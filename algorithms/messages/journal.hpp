// Output of a run. The recorder actor calls it from its lane, one call at a time; the runtime implements it with files
// and a terminal, tests with a vector.
#pragma once

#include "troupe/algorithms/messages/messages.hpp"
#include "troupe/algorithms/messages/run_state.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace troupe {

/// Number of workers up to which the progress of each is reported.
constexpr std::size_t progress_by_worker_max = 64;

class journal {
 public:
  virtual ~journal() = default;

  /// Writes one line of the metrics.
  virtual void write(const record& line) = 0;

  /// Reports that every worker has completed `step` steps. Called often, so it must be cheap.
  virtual void progress(std::uint64_t step) = 0;

  /// Reports the steps that each worker has completed, by rank, if there are at most progress_by_worker_max workers.
  /// Called before progress(), as often.
  virtual void progress_by_worker(const std::vector<std::uint64_t>& /*steps*/) {}

  /// Saves the best result so far, replacing the previous one.
  virtual void keep(const snapshot& best) = 0;

  /// Saves the result of the run, before the `end` record is written.
  virtual void save(const snapshot& result) = 0;

  /// Writes a checkpoint: the state of the run after the lines written so far. If the checkpoint cannot be written, the
  /// run continues with a warning. Returns its files if `copied` is set and another node keeps copies.
  virtual std::optional<state_dict> checkpoint(const run_state& /*state*/, bool /*copied*/) { return {}; }

  /// Returns whether the last checkpoint could be written; its copy does not matter.
  virtual bool wrote_checkpoint() const { return true; }

  /// Reports that the copy of the checkpoint of `step` is overdue. No further copies are sent until it is confirmed.
  virtual void report_overdue_copy(std::uint64_t /*step*/) {}
};

}  // namespace troupe
