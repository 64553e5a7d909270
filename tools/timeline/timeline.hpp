// Steps of a wiring in virtual time: what each worker and server does, and what they send each other.
#pragma once

#include "troupe/algorithms/messages/messages.hpp"
#include "troupe/runtime/plan/plan.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::timeline {

using time = std::chrono::nanoseconds;  ///< Virtual time.

enum class activity : std::uint8_t {
  computes,  ///< A worker computes the gradient of a step.
  waits,     ///< A worker waits for an exchange or for batches.
  folds,     ///< A lane adds values to a sum or applies an update.
};

/// A span of time in a row.
struct box {
  activity what{};
  std::uint64_t step{0};  ///< The step that is computed, counted from 1; otherwise 0.
  time begin{0}, end{0};
};

/// An actor or a lane. Its boxes do not overlap.
struct row {
  std::string name;
  std::optional<std::uint32_t> worker{};  ///< Rank of the worker, or of the worker whose port uses the lane.
  bool is_memory{false};  ///< A memory shared by the workers, which take their steps in it and send no messages.
  std::vector<box> boxes{};
};

/// A tensor, or part of one, from one row to another.
struct message {
  std::size_t exchange{0};  ///< Index in plan::exchanges.
  std::uint64_t step{0};    ///< Counted from 1.
  std::size_t from{0}, to{0};
  time sent{0}, received{0};
  stage at{};
  range elements{};  ///< Range of the flat storage.
  std::uint64_t bytes{0};
};

/// The steps that are shown, and the overrides with which a topology file runs no longer than these.
struct window {
  std::uint64_t first_step{1}, last_step{1};  ///< Counted from 1.
  std::vector<std::string> overrides{};
  bool assumes_links{false};            ///< Whether the file describes no links.
  std::vector<std::string> assumed{};   ///< What is assumed because the file leaves it open.
  std::vector<std::string> left_out{};  ///< What is not shown.
};

/// Returns the first window of `steps` steps in which each exchange happens at least once.
window window_of(const plan& plan, std::uint64_t steps);

struct timeline {
  std::uint64_t first_step{1}, last_step{1};
  time begin{0}, end{0};
  std::vector<row> rows{};
  std::vector<message> messages{};  ///< In the order in which they are sent.
};

/// Simulates the steps of a window. `plan` is that of the topology with the overrides of the window, without faults.
/// Throws std::runtime_error if the simulated run fails.
timeline make_timeline(plan plan, const data::dataset_pair& data, const window& shown);

/// Removes the rows of other workers, and the messages that they send and receive.
timeline only_workers(timeline all, const std::vector<std::uint32_t>& workers);

/// Returns "contribution", "partial" or "result".
const char* name_of(stage at);

/// Returns what a message carries: "gradient", "chunk of the gradient, elements 0 to 5,439", "partial sum", "result".
std::string cargo_of(const plan& plan, const message& one);

}  // namespace troupe::timeline
