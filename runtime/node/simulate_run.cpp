#include "troupe/runtime/node/simulate_run.hpp"

#include "troupe/runtime/emulation/costs.hpp"
#include "troupe/runtime/emulation/network.hpp"
#include "troupe/runtime/emulation/slowed_lanes.hpp"
#include "troupe/runtime/node/simulation.hpp"
#include "troupe/runtime/node/traced_lanes.hpp"
#include "troupe/runtime/node/worker_of_plan.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

namespace {

/// Leaves out the weights, of which there are none if nothing is computed.
class journal_without_weights final : public journal {
 public:
  explicit journal_without_weights(std::shared_ptr<journal> inner) : inner_(std::move(inner)) {}

  void write(const record& line) override { inner_->write(line); }
  void progress(std::uint64_t step) override { inner_->progress(step); }
  void keep(const snapshot&) override {}
  void save(const snapshot&) override {}

 private:
  std::shared_ptr<journal> inner_;
};

/// How long the compute actor of each worker has worked, by rank, waiting for a core included.
using busy_times = std::vector<std::chrono::microseconds>;

/// Completes the totals of the workers, which learn from their compute actors only how long they worked in real time.
class journal_with_busy_times final : public journal {
 public:
  journal_with_busy_times(std::shared_ptr<journal> inner, std::shared_ptr<const busy_times> busy)
      : inner_(std::move(inner)), busy_(std::move(busy)) {}

  void write(const record& line) override {
    auto complete = line;
    for (std::size_t rank = 0; rank < complete.workers.size(); ++rank)
      complete.workers[rank].busy = std::chrono::duration<double>(busy_->at(rank)).count();
    inner_->write(complete);
  }
  void progress(std::uint64_t step) override { inner_->progress(step); }
  void keep(const snapshot& best) override { inner_->keep(best); }
  void save(const snapshot& result) override { inner_->save(result); }
  std::optional<state_dict> checkpoint(const run_state& state, bool copied) override {
    return inner_->checkpoint(state, copied);
  }
  void report_overdue_copy(std::uint64_t step) override { inner_->report_overdue_copy(step); }

 private:
  std::shared_ptr<journal> inner_;
  std::shared_ptr<const busy_times> busy_;
};

/// Returns what hears of the jobs of an actor's lane. It adds those of compute actors to `busy`, without the pauses of
/// slow workers, and reports all that take time to the trace.
simulated_job_listener listener_of(const plan& plan, const std::string& actor, const std::shared_ptr<busy_times>& busy,
                                   const std::shared_ptr<trace_sink>& trace) {
  const auto rank = rank_of_compute(actor);
  if (!rank && !trace) return {};
  const auto factor = rank ? emulation::slowdown_of(plan, *rank) : 1;
  return [rank, factor, busy, track = trace_track{trace, actor}](const simulated_job& job) {
    if (job.end == job.begin) return;
    add_job(track, job.what, job.begin, job.end);
    if (!rank || job.what.what != task::kind::advance) return;
    const std::chrono::duration<double, std::micro> pause = (job.end - job.begin) * (1 - 1 / factor);
    busy->at(*rank) += job.end - job.free - std::chrono::round<std::chrono::microseconds>(pause);
  };
}

/// Returns the node of an actor with a lane: its name ends with the rank of its worker, or it is on the first node.
std::uint32_t node_of_lane(const plan& plan, const std::string& actor) {
  if (plan.nodes.size() == 1 || actor.find(" server ") != std::string::npos) return 0;
  const auto space = actor.rfind(' ');
  if (space == std::string::npos || space + 1 == actor.size() ||
      !std::isdigit(static_cast<unsigned char>(actor.back())))
    return 0;
  return plan.node_of(static_cast<std::uint32_t>(std::stoul(actor.substr(space + 1))));
}

}  // namespace

void settle_durations(plan& plan, const data::dataset_pair& data, const at::Tensor& initial, models::buffer_pool pool) {
  auto& gradient = plan.file.simulate.gradient;
  if (gradient == "measure")
    gradient = topology::print_delay(emulation::measure_gradient(plan, data, initial, std::move(pool)));
}

run_end simulate_run(const plan& plan, const data::dataset_pair& data, at::Tensor initial, models::buffer_pool pool,
                     std::shared_ptr<journal> book, const simulate_run_options& options) {
  const auto& given = plan.file.simulate;
  const auto costs = std::make_shared<emulation::costs>(plan, *topology::parse_delay(given.gradient), options.seed);
  simulation_options how{
      .seed = options.seed,
      .duration_of = [costs](const std::string& actor, const task& what) { return costs->of(actor, what); },
      .signal = options.signal,
      .computes = options.computes,
      .most_events = std::numeric_limits<std::uint64_t>::max(),
      .stop_after = options.stop_after};
  how.trace = options.trace;
  const auto busy = std::make_shared<busy_times>(plan.workers);
  how.listen_to = [&plan, busy, trace = options.trace](const std::string& actor) {
    return listener_of(plan, actor, busy, trace);
  };
  if (!plan.links.empty()) how.links = std::make_shared<emulation::network>(plan, options.seed, options.trace);
  if (given.cores > 0) {
    std::vector<std::shared_ptr<simulated_cores>> cores;
    for (std::size_t node = 0; node < plan.nodes.size(); ++node)
      cores.push_back(std::make_shared<simulated_cores>(static_cast<std::size_t>(given.cores)));
    how.cores_of = [&plan, cores](const std::string& actor) { return cores.at(node_of_lane(plan, actor)); };
  }
  book = std::make_shared<journal_with_busy_times>(std::move(book), busy);
  if (!options.computes) book = std::make_shared<journal_without_weights>(std::move(book));
  return simulate(plan, data, std::move(initial), std::move(pool), std::move(book), how);
}

}  // namespace troupe
