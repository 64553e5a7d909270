// A worker's loop and the decisions that follow from a position in it: which exchange is due, and what one request to
// compute covers. Pure functions; the worker actor carries out what they decide.
#pragma once

#include "troupe/algorithms/messages/messages.hpp"
#include "troupe/algorithms/rules/schedule.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

namespace troupe {

/// An exchange in which the worker takes part, as an element of the loop.
struct exchange_word {
  std::uint32_t place{0};  ///< Index of the exchange: key::place.
  slot sends{}, answers{};
  cadence when{};
  std::int64_t elements{0};  ///< Number of leading elements of [P | B] that are exchanged.
  /// Whether x changes while the gradient is computed (float buffers through the forward pass, a shared memory through
  /// other workers), so that it is exchanged after the gradient.
  bool gradient_first{false};
  /// Pieces of a gradient that leave separately while backward still computes the rest, in the order of leaving. Null
  /// if it leaves whole.
  std::shared_ptr<const std::vector<range>> buckets{};
  bool on_device{false};  ///< See bucket_destination::on_device.
};

/// One element of a loop.
using loop_word = std::variant<verb, exchange_word>;

namespace rules {

/// The steps after which a worker reports to the coordinator.
struct report_times {
  schedule when;
  std::uint64_t last{0};            ///< The step at which the run ends.
  bool draws_from_queue{false};     ///< Whether the ends of assignments, not the schedule, are reported.
  std::deque<assignment> assigned;  ///< Assignments that are not complete, in order. Used only with a queue.

  /// Returns whether the worker reports a milestone after `completed` steps.
  bool is_milestone(std::uint64_t completed) const;

  /// Returns the first milestone after `completed`, or `completed` itself if it is not known yet.
  std::uint64_t next_milestone(std::uint64_t completed) const;
};

/// Position of a worker in its loop.
struct loop_position {
  std::size_t word{0};         ///< Index of the next element of the loop.
  std::uint64_t completed{0};  ///< Completed steps.
  std::uint64_t stamp{0};      ///< Number of steps applied to x, completed or not: snapshot::origin.step.
};

/// How far a request to compute may go.
struct loop_limits {
  std::uint64_t granted{0};        ///< Total number of steps that may be started.
  std::uint32_t steps_at_once{1};  ///< Maximum number of steps per request.
};

/// What one request to compute covers.
struct local_work {
  std::vector<verb> verbs{};
  std::uint32_t times{1};     ///< How often the verbs are repeated.
  std::size_t word_after{0};  ///< Position in the loop afterwards.
  std::uint64_t steps{0};     ///< Number of steps that it completes.
  std::uint64_t begins{0};    ///< Number of steps that it starts, besides the one under way.
};

/// Which tensors an exchange or a report takes from the host.
struct host_needs {
  bool parameters{false}, gradient{false};
};

/// Returns `word` if it is an exchange that is due at `stamp`; otherwise null.
const exchange_word* due_exchange(const loop_word& word, std::uint64_t stamp);

/// Returns the index of the exchange that can run while the gradient at `word` is computed, because both need only x.
/// Returns the size of the loop if there is none.
std::size_t concurrent_exchange(const std::vector<loop_word>& loop, std::size_t word, std::uint64_t stamp);

/// Returns the first number of completed steps, from `completed` on, after which the next step contains an exchange.
std::uint64_t next_exchange(const std::vector<loop_word>& loop, std::uint64_t completed);

/// Returns as many whole steps without an exchange as one request may cover, or nothing if the next step contains one
/// or the worker is in the middle of a step.
std::optional<local_work> whole_steps(const std::vector<loop_word>& loop, const loop_position& at,
                                      const loop_limits& limits, const report_times& reports);

/// Returns the local work from a position to the next exchange. It includes the beginning of the following step, so
/// that `apply` and the next `gradient` share a request, unless something is due between the two steps.
local_work next_work(const std::vector<loop_word>& loop, const loop_position& at, const loop_limits& limits,
                     const report_times& reports);

/// Returns where the last gradient of `work` goes while it is computed: the exchange that directly follows it, if that
/// exchange takes it in buckets; otherwise an empty destination.
bucket_destination gradient_destination(const std::vector<loop_word>& loop, const local_work& work);

/// Predicts what leaves the worker after `work`, so that nothing else has to be copied from the device. The worker
/// fetches the rest when a prediction is wrong. `stamp` is the stamp before `work`.
host_needs needs_after(const std::vector<loop_word>& loop, const local_work& work, std::uint64_t stamp,
                       bool leaves_in_buckets);

}  // namespace rules

}  // namespace troupe
