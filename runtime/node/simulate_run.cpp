#include "troupe/runtime/node/simulate_run.hpp"

#include "troupe/runtime/emulation/costs.hpp"
#include "troupe/runtime/emulation/network.hpp"
#include "troupe/runtime/node/simulation.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <algorithm>
#include <cctype>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

namespace {

/// Leaves out what was measured on this machine, so that equal simulations write equal bytes.
class journal_of_simulation final : public journal {
 public:
  journal_of_simulation(std::shared_ptr<journal> inner, bool has_weights)
      : inner_(std::move(inner)), has_weights_(has_weights) {}

  void write(const record& line) override {
    auto written = line;
    if (written.data_wait) written.data_wait = 0;
    inner_->write(written);
  }
  void progress(std::uint64_t step) override { inner_->progress(step); }
  void keep(const snapshot& best) override {
    if (has_weights_) inner_->keep(best);
  }
  void save(const snapshot& result) override {
    if (has_weights_) inner_->save(result);
  }
  std::optional<state_dict> checkpoint(const run_state& state, bool copied) override {
    return inner_->checkpoint(state, copied);
  }
  void report_overdue_copy(std::uint64_t step) override { inner_->report_overdue_copy(step); }

 private:
  std::shared_ptr<journal> inner_;
  bool has_weights_;
};

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
      .computes = options.computes,
      .most_events = std::numeric_limits<std::uint64_t>::max(),
      .stop_after = options.stop_after};
  if (!plan.file.links.empty()) how.links = std::make_shared<emulation::network>(plan, options.seed);
  if (given.cores > 0) {
    std::vector<std::shared_ptr<simulated_cores>> cores;
    for (std::size_t node = 0; node < plan.nodes.size(); ++node)
      cores.push_back(std::make_shared<simulated_cores>(static_cast<std::size_t>(given.cores)));
    how.cores_of = [&plan, cores](const std::string& actor) { return cores.at(node_of_lane(plan, actor)); };
  }
  return simulate(plan, data, std::move(initial), std::move(pool),
                  std::make_shared<journal_of_simulation>(std::move(book), options.computes), how);
}

}  // namespace troupe
