#include "troupe/runtime/simulation/simulation.hpp"

#include "troupe/algorithms/training/engine.hpp"
#include "troupe/data/random/random.hpp"
#include "troupe/runtime/emulation/network.hpp"
#include "troupe/runtime/launch/traced_lanes.hpp"
#include "troupe/runtime/plan/refuse.hpp"
#include "troupe/runtime/simulation/simulated_cores.hpp"
#include "troupe/runtime/simulation/simulated_lanes.hpp"
#include "troupe/runtime/simulation/simulated_system.hpp"
#include "troupe/runtime/supervision/run_end.hpp"
#include "troupe/runtime/support/activity.hpp"

#include <caf/all.hpp>
#include <caf/scheduler/test_coordinator.hpp>

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <utility>

namespace troupe {

namespace {

/// Ends the actors of a simulated run, however it is left: the system waits for them.
struct cleanup {
  const crew& all;
  caf::scheduler::test_coordinator& scheduler;
  ~cleanup() {
    dismiss(all);
    while (scheduler.has_job()) scheduler.run_once();
  }
};

/// Advances virtual time to the next timeout, and triggers all timeouts that are due then. Returns false if there is
/// none within `longest`. Throws std::runtime_error if the run lasts too long.
bool reach_next_instant(caf::scheduler::test_coordinator& scheduler, std::chrono::hours longest) {
  auto& clock = scheduler.clock();
  if (clock.schedule().empty()) return false;
  const auto next = clock.schedule().begin()->first;
  if (next - clock.now() > longest) return false;
  check_virtual_time(next.time_since_epoch());
  scheduler.trigger_timeout();
  while (!clock.schedule().empty() && clock.schedule().begin()->first <= clock.now()) scheduler.trigger_timeout();
  return true;
}

}  // namespace

void check_virtual_time(std::chrono::nanoseconds now) {
  if (now >= longest_delay)
    throw std::runtime_error(
        "the run would last longer than a hundred years of virtual time; see [simulate], [[link]] and "
        "workers.slowdown in the topology file");
}

run_end simulate(const plan& plan, const data::dataset_pair& data, at::Tensor initial, models::buffer_pool pool,
                 std::shared_ptr<journal> book, const simulation_options& options) {
  for (const auto& exchange : plan.exchanges)
    if (exchange.nature.host == hosting::device_library)
      refuse(plan.file, "exchange." + exchange.name + ".engine",
             exchange.name +
                 ": engine = \"nccl\" cannot be simulated or replayed: its calls wait for each other on the GPUs, and "
                 "lanes in virtual time run one after the other; use engine = \"troupe\"");
  run_end end;
  blame blamed;
  bool ended = false;
  data::random_stream random{options.seed};
  simulated_lanes lanes{random.next(),
                        {.longest_job = options.longest_job,
                         .duration_of = options.duration_of,
                         .cores_of = options.cores_of,
                         .slowdown_of = options.slowdown_of,
                         .listen_to = options.listen_to}};
  traced_lanes traced{lanes, options.trace};
  const auto in_real_time = options.trace && options.traces_real_time;
  simulated_system_config config;
  caf::actor_system system{config};
  auto& scheduler = dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());

  auto troupe = launch(system, plan, data, in_real_time ? static_cast<lane_factory&>(traced) : lanes,
                       {.book = std::move(book),
                        .initial = std::move(initial),
                        .pool = std::move(pool),
                        .restored = options.restored,
                        .open_device = options.open_device,
                        .computes = options.computes,
                        .deliveries = options.deliveries,
                        .links = options.links,
                        .trace = in_real_time ? nullptr : options.trace,
                        .engines = std::make_shared<engine_pool>()});
  for (const auto& [label, actor] : troupe.members) {
    caf::actor_cast<caf::abstract_actor*>(actor)->attach_functor([&, name = label.name](const caf::error& why) {
      if (why && why != caf::exit_reason::kill) blamed.hear(name, why);
      ended = true;
    });
  }
  const cleanup at_the_end{troupe, scheduler};
  const activity simulating{"an operation of a simulated worker or of the evaluator", plan.file.run.timeout,
                            "run.timeout"};
  begin(troupe, troupe.workers);
  if (options.after_begin) options.after_begin(troupe);
  auto& events = end.events;
  const auto run_one = [&] {
    std::swap(scheduler.jobs.front(), scheduler.jobs[random.below(scheduler.jobs.size())]);
    scheduler.run_once();
    events += 1;
    activity::goes_on();
    if (options.signal && end.signal == 0 && (end.signal = *options.signal) != 0)
      caf::anon_send(troupe.coordinator, halt_atom_v);
    if (options.after_event) options.after_event(troupe, events);
    if (events > options.most_events)
      throw std::runtime_error("the simulated run did not end (schedule seed " + std::to_string(options.seed) + ")");
  };
  const auto stops = [&] { return options.stop_after > 0 && events >= options.stop_after; };
  const auto next_instant = [&] {
    const auto found = reach_next_instant(scheduler, options.longest_wait);
    if (options.clock) *options.clock = scheduler.clock().now().time_since_epoch();
    return found;
  };
  const auto goes_on = [&] {
    return scheduler.has_job() || next_instant() || (options.on_stall && options.on_stall(troupe));
  };
  while (!ended && !stops() && goes_on())
    if (scheduler.has_job()) run_one();
  if (!ended && !stops())
    throw simulation_stalled("the simulated run stalled (schedule seed " + std::to_string(options.seed) + ")");
  end.failure = std::move(blamed.text);
  if (options.links) end.links = options.links->usage();
  return end;
}

}  // namespace troupe
