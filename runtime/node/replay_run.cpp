#include "troupe/runtime/node/replay_run.hpp"

#include "troupe/runtime/node/simulation.hpp"
#include "troupe/runtime/recording/replay.hpp"

#include <caf/all.hpp>

#include <chrono>
#include <limits>
#include <stdexcept>
#include <utility>

namespace troupe {

namespace {

/// In virtual time, which a replay does not need: far beyond anything it waits for.
constexpr std::chrono::hours never{1000}, longest_wait{1};

/// Notes how many steps every worker has completed.
class watching_journal final : public journal {
 public:
  explicit watching_journal(std::shared_ptr<journal> inner) : inner_(std::move(inner)) {}

  void write(const record& line) override { inner_->write(line); }
  void progress(std::uint64_t step) override {
    steps_ = step;
    inner_->progress(step);
  }
  void keep(const snapshot& best) override { inner_->keep(best); }
  void save(const snapshot& result) override { inner_->save(result); }

  std::uint64_t steps() const { return steps_; }

 private:
  std::shared_ptr<journal> inner_;
  std::uint64_t steps_{0};
};

/// Takes everything as it comes from now on, and ends the run.
void end_now(const crew& all, recording::replay& orders) {
  orders.open();
  for (const auto& ports : all.ports)
    for (const auto& [id, port] : ports) caf::anon_send(port, tick_atom_v);  // continues with what it has held back
  caf::anon_send(all.coordinator, halt_atom_v);
}

}  // namespace

replay_end replay_run(plan plan, const data::dataset_pair& data, at::Tensor initial, models::buffer_pool pool,
                      std::shared_ptr<journal> book, const recording::contents& recorded,
                      std::optional<std::uint64_t> until) {
  plan.file.run.timeout = never;
  plan.file.run.max_seconds.reset();
  recording::replay orders{recorded, plan.draws_from_queue()};
  const auto watched = std::make_shared<watching_journal>(std::move(book));
  replay_end result;
  const auto cut = [&](const crew& all) {
    result.cut_at = watched->steps();
    end_now(all, orders);
  };
  simulation_options how{.duration_of = [](const auto&, const task&) { return std::chrono::microseconds{1}; },
                         .most_events = std::numeric_limits<std::uint64_t>::max()};
  how.deliveries = {.order_of = [&](std::uint32_t actor) { return orders.order_of(actor); },
                    .lock_order_of = [&](std::uint32_t id, const auto&) { return orders.lock_order_of(id); },
                    .requests_of = [&](std::uint32_t rank) { return orders.requests_of(rank); },
                    .every_step = until.has_value()};
  how.longest_wait = longest_wait;
  how.after_begin = [&](const crew& all) {
    for (std::size_t i = 0; i < orders.interrupts(); ++i) caf::anon_send(all.coordinator, halt_atom_v);
    for (std::size_t i = 0; i < orders.time_limits(); ++i) caf::anon_send(all.coordinator, tick_atom_v);
  };
  how.after_event = [&](const crew& all, std::uint64_t) {
    if (until && watched->steps() >= *until && !orders.is_open()) cut(all);
  };
  how.on_stall = [&](const crew& all) {
    if (recorded.complete || orders.is_open()) return false;
    cut(all);
    return true;
  };
  try {
    result.end = simulate(plan, data, std::move(initial), std::move(pool), watched, how);
  } catch (const simulation_stalled&) {
    const auto missing = orders.missing();
    result.end.failure =
        "the replay does something else than the recorded run" + (missing.empty() ? std::string{} : ": " + missing);
  }
  return result;
}

}  // namespace troupe
