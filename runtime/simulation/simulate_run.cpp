#include "troupe/runtime/simulation/simulate_run.hpp"

#include "troupe/algorithms/messages/journal_filter.hpp"
#include "troupe/runtime/emulation/costs.hpp"
#include "troupe/runtime/emulation/network.hpp"
#include "troupe/runtime/emulation/slowed_lanes.hpp"
#include "troupe/runtime/launch/traced_lanes.hpp"
#include "troupe/runtime/plan/worker_of_plan.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <chrono>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

namespace {

/// Discards the weights: there are none if nothing is computed.
class journal_without_weights final : public journal_filter {
 public:
  using journal_filter::journal_filter;

  void keep(const snapshot&) override {}
  void save(const snapshot&) override {}
};

/// Keeps only the last line.
class last_line final : public journal {
 public:
  void write(const record& line) override { last = line; }
  void progress(std::uint64_t /*step*/) override {}
  void keep(const snapshot& /*best*/) override {}
  void save(const snapshot& /*result*/) override {}

  record last;
};

/// Returns a listener that reports the jobs of an actor's lane to the trace, except those that take no time. Returns an
/// empty function if there is no trace.
simulated_job_listener listener_of(const actor_label& actor, const std::shared_ptr<trace_sink>& trace) {
  if (!trace) return {};
  return [track = trace_track{trace, actor.name}](const simulated_job& job) {
    if (job.end != job.begin) add_job(track, job.what, job.begin, job.end);
  };
}

/// Returns the faults of the topology file. A fault between nodes becomes one fault for each pair of nodes.
std::vector<node_fault> faults_of(const plan& plan) {
  std::vector<node_fault> all;
  for (std::size_t i = 0; i < plan.faults.size(); ++i) {
    const auto& planned = plan.faults[i];
    node_fault fault{.at_step = planned.at_step,
                     .node = planned.nodes.front(),
                     .lasting = planned.given.lasts.value_or(std::chrono::microseconds{0}),
                     .delay = planned.given.latency.value_or(std::chrono::microseconds{0}),
                     .planned = i};
    if (!planned.at_step) fault.at_time = planned.at_time;
    if (planned.what == planned_fault::kind::kill || planned.what == planned_fault::kind::freeze) {
      fault.what = planned.what == planned_fault::kind::kill ? node_fault::kind::kill : node_fault::kind::freeze;
      all.push_back(fault);
      continue;
    }
    fault.what = planned.what == planned_fault::kind::partition ? node_fault::kind::cut : node_fault::kind::slow;
    for (std::uint32_t other = 0; other < plan.nodes.size(); ++other) {
      if (other == fault.node || (planned.nodes.size() == 2 && other != planned.nodes.back())) continue;
      fault.other = other;
      all.push_back(fault);
    }
  }
  return all;
}

}  // namespace

void settle_durations(plan& plan, const data::dataset_pair& data, const at::Tensor& initial, models::buffer_pool pool) {
  auto& gradient = plan.file.simulate.gradient;
  if (gradient == "measure")
    gradient = topology::print_delay(emulation::measure_gradient(plan, data, initial, std::move(pool)));
}

run_end simulate_run(const plan& plan, const data::dataset_pair& data, at::Tensor initial, models::buffer_pool pool,
                     std::shared_ptr<journal> journal, simulation_options options) {
  const auto& given = plan.file.simulate;
  const auto costs = std::make_shared<emulation::costs>(plan, *topology::parse_delay(given.gradient), options.seed);
  options.faults = faults_of(plan);
  // Messages between nodes take no time other than that of the emulated links.
  options.latency = std::chrono::microseconds{0};
  options.window = std::numeric_limits<std::int64_t>::max();
  options.most_events = std::numeric_limits<std::uint64_t>::max();
  options.lanes.duration_of = [costs](const actor_label& actor, const task& job) { return costs->of(actor, job); };
  options.lanes.slowdown_of = [&plan](const actor_label& actor) {
    return actor.id.what == role::compute ? emulation::slowdown_of(plan, actor.id.rank) : 1;
  };
  options.lanes.listen_to = [trace = options.trace](const actor_label& actor) { return listener_of(actor, trace); };
  if (given.cores > 0) {
    std::vector<std::shared_ptr<simulated_cores>> cores;
    for (std::size_t node = 0; node < plan.nodes.size(); ++node)
      cores.push_back(std::make_shared<simulated_cores>(static_cast<std::size_t>(given.cores)));
    options.lanes.cores_of = [&plan, cores](const actor_label& actor) { return cores.at(node_of(plan, actor.id)); };
  }
  if (!options.links)
    options.links = emulation::make_network(plan, options.seed, emulation::realm::simulation, options.trace);
  if (!options.computes) journal = std::make_shared<journal_without_weights>(std::move(journal));
  return simulate(plan, data, std::move(initial), std::move(pool), std::move(journal), options);
}

record simulate_timing(const plan& plan, const data::dataset_pair& data, const at::Tensor& initial,
                       const models::buffer_pool& pool, simulation_options options) {
  options.computes = false;
  const auto journal = std::make_shared<last_line>();
  const auto end = simulate_run(plan, data, initial, pool, journal, options);
  if (end.failure) throw std::runtime_error("the simulated run failed: " + *end.failure);
  if (end.status() != 0) throw std::runtime_error("the simulation was interrupted");
  return journal->last;
}

}  // namespace troupe
