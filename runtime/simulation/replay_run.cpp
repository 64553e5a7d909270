#include "troupe/runtime/simulation/replay_run.hpp"

#include "troupe/algorithms/messages/journal_filter.hpp"
#include "troupe/runtime/plan/worker_of_plan.hpp"
#include "troupe/runtime/recording/replay.hpp"
#include "troupe/runtime/simulation/simulation.hpp"

#include <caf/all.hpp>

#include <algorithm>
#include <bit>
#include <chrono>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

namespace troupe {

namespace {

/// Limits in virtual time. A replay needs none, so these exceed anything that it waits for. A clock must be able to
/// hold a hundred thousand times `never`.
constexpr std::chrono::hours never{10}, longest_wait{1};

/// Notes the step of the last line of the metrics.
class step_noting_journal final : public journal_filter {
 public:
  using journal_filter::journal_filter;

  void write(const record& line) override {
    steps_ = line.step;
    journal_filter::write(line);
  }

  std::uint64_t steps() const { return steps_; }

 private:
  std::uint64_t steps_{0};
};

/// Stops the workers once a number of steps is completed, counted like `step` in the metrics.
class step_limit {
 public:
  step_limit(const plan& plan, std::uint64_t limit)
      : limit_(limit),
        queued_(plan.draws_from_queue()),
        in_lockstep_(works_in_lockstep(plan)),
        completed_(plan.workers) {}

  /// Returns whether a worker that has completed this many steps may begin another one.
  bool lets_go_on(std::uint32_t rank, std::uint64_t completed) {
    completed_.at(rank) = completed;
    if (is_reached()) return false;
    return completed < limit_ || queued_ || !in_lockstep_;
  }

  bool is_reached() const {
    if (!queued_) return *std::min_element(completed_.begin(), completed_.end()) >= limit_;
    return std::accumulate(completed_.begin(), completed_.end(), std::uint64_t{0}) / completed_.size() >= limit_;
  }

 private:
  std::uint64_t limit_;
  bool queued_, in_lockstep_;
  std::vector<std::uint64_t> completed_;  ///< Steps of each worker.
};

/// Lets the actors accept every message as it arrives from now on, and ends the run.
void end_now(const crew& actors, recording::replay& orders) {
  orders.open();
  for (const auto& ports : actors.ports)
    for (const auto& [id, port] : ports) caf::anon_send(port, tick_atom_v);  // lets it process held-back parts
  caf::anon_send(actors.coordinator, halt_atom_v);
}

}  // namespace

replay_end replay_run(plan plan, const data::dataset_pair& data, at::Tensor initial, models::buffer_pool pool,
                      std::shared_ptr<journal> journal, replay_options options) {
  const auto& recorded = options.recorded;
  const auto* signal = options.signal;
  plan.file.run.timeout = never;
  plan.file.run.max_seconds.reset();
  recording::replay orders{recorded, plan.draws_from_queue()};
  const auto watched = std::make_shared<step_noting_journal>(std::move(journal));
  std::optional<step_limit> limit;
  if (options.until) limit.emplace(plan, *options.until);
  bool is_cut = false;
  const auto cut = [&](const crew& actors) {
    is_cut = true;
    end_now(actors, orders);
  };
  simulation_options how{
      .on_one_node = true,
      .lanes = {.duration_of = [](const auto&, const task&) { return std::chrono::microseconds{0}; }},
      .most_events = std::numeric_limits<std::uint64_t>::max()};
  how.deliveries = {.order_of = [&](std::uint32_t actor) { return orders.order_of(actor); },
                    .lock_order_of = [&](std::uint32_t id, const auto&) { return orders.lock_order_of(id); },
                    .gate_of =
                        [&](std::uint32_t rank) {
                          const auto goes_on = [&, rank](std::uint64_t done) { return limit->lets_go_on(rank, done); };
                          return orders.gate_of(rank, limit ? goes_on : std::function<bool(std::uint64_t)>{});
                        }};
  how.signal = signal;
  how.restored = std::move(options.from);
  how.trace = std::move(options.trace);
  how.traces_real_time = true;
  how.longest_wait = longest_wait;
  how.after_begin = [&](const crew& actors) {
    for (const auto& order : orders.orders())
      caf::anon_send(actors.coordinator, steering_order{.what = static_cast<steering_order::kind>(order.part),
                                                        .step = order.step,
                                                        .lr = std::bit_cast<double>(order.at)});
    for (std::size_t i = 0; i < orders.interrupts(); ++i) caf::anon_send(actors.coordinator, halt_atom_v);
    for (std::size_t i = 0; i < orders.time_limits(); ++i) caf::anon_send(actors.coordinator, tick_atom_v);
  };
  how.after_event = [&](const crew& actors, std::uint64_t) {
    if (signal && *signal != 0 && !is_cut) cut(actors);
    if (limit && !is_cut && limit->is_reached()) cut(actors);
  };
  how.on_stall = [&](const crew& actors) {
    if (recorded.complete || is_cut) return false;
    cut(actors);
    return true;
  };
  replay_end result;
  try {
    result.end = simulate(plan, data, std::move(initial), std::move(pool), watched, how);
  } catch (const simulation_stalled&) {
    const auto missing = orders.missing();
    result.end.failure =
        "the replay does something else than the recorded run" + (missing.empty() ? std::string{} : ": " + missing);
  }
  if (is_cut) result.cut_at = watched->steps();
  return result;
}

}  // namespace troupe
