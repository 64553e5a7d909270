// What a run has reported so far, for pages and servers that show it: one thread writes, others read. Its size is
// bounded: when it has too many lines, every second one is dropped, so that the others still cover the whole run.
#pragma once

#include "troupe/algorithms/messages/messages.hpp"
#include "troupe/runtime/emulation/edges.hpp"
#include "troupe/runtime/emulation/usage.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace troupe::watching {

/// The progress of a run at some time.
struct progress_point {
  double seconds{0};  ///< Since the first record.
  double steps{0};    ///< The mean over the workers.
};

/// What edges and emulated wires have carried up to some time.
struct traffic_point {
  double seconds{0};
  std::vector<emulation::edge_usage> edges{};
  std::vector<emulation::wire_usage> wires{};
};

/// A copy of a history.
struct history_state {
  /// One line per step with results, in order; an `epoch` line is merged with the `evaluation` line of the same step.
  std::vector<record> lines{};
  std::optional<record> latest{};                ///< The last record, whatever its event.
  std::vector<worker_total> workers{};           ///< By rank, as last reported; empty if never.
  std::vector<std::uint64_t> staleness{};        ///< Number of gradients by staleness, as last reported.
  std::uint64_t steps{0};                        ///< Steps that every worker has completed.
  std::vector<std::uint64_t> steps_by_worker{};  ///< By rank; empty if there are too many.
  std::vector<progress_point> progress{};        ///< Empty for a simulated run, whose time is virtual.
  /// Traffic now, and a few seconds ago or, for a run that has ended or is simulated, at its beginning.
  traffic_point traffic{}, traffic_before{};

  bool has_begun() const { return latest.has_value(); }
  bool has_ended() const { return latest && latest->event == "end"; }
  /// Returns "waiting", "training", or the status of the `end` record.
  std::string status() const;
  /// Returns the steps per second of the last few seconds, or nothing if unknown.
  std::optional<double> steps_per_second() const;
  /// Returns the last value of a field; that of the `end` record, which is for the whole run, if it has one.
  std::optional<double> last(std::optional<double> record::*field) const;
};

class history {
 public:
  using clock = std::function<std::chrono::steady_clock::time_point()>;

  /// Reads what edges and wires have carried so far. It may be called on any thread.
  using traffic_meter = std::function<void(traffic_point&)>;

  static constexpr std::size_t lines_max = 400, points_max = 400;

  /// `keeps_progress`: whether to keep how the steps advanced over time. `meter` may be empty.
  explicit history(bool keeps_progress, clock now = std::chrono::steady_clock::now, traffic_meter meter = {})
      : keeps_progress_(keeps_progress), now_(std::move(now)), meter_(std::move(meter)) {}

  void write(const record& line);
  void progress(std::uint64_t step);
  void progress_by_worker(const std::vector<std::uint64_t>& steps);

  /// Returns a number that grows with every change.
  std::uint64_t version() const;
  history_state state() const;

 private:
  void add_point();
  void add_traffic();
  double seconds_now() const;

  bool keeps_progress_;
  clock now_;
  traffic_meter meter_;
  mutable std::mutex mutex_;
  history_state state_;
  std::uint64_t version_{0};
  std::chrono::steady_clock::time_point begun_{}, last_point_{};
  double seconds_before_{0};
  std::chrono::milliseconds between_points_{500};
  std::deque<traffic_point> traffic_;  ///< Traffic of the last few seconds, the oldest first.
};

}  // namespace troupe::watching
