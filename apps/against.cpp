#include "troupe/apps/against.hpp"

#include "troupe/runtime/support/terminal.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <cstdio>
#include <string>
#include <utility>

namespace troupe::apps {

comparing::run_figures timing_of(plan plan, const data::dataset_pair& data, const at::Tensor& initial,
                                 const models::buffer_pool& pool, simulation_options how,
                                 std::chrono::microseconds gradient) {
  plan.file.simulate.gradient = topology::print_delay(gradient);
  const auto line = simulate_timing(plan, data, initial, pool, std::move(how));
  comparing::run_figures figures{.workers = line.workers.size(),
                                 .train_seconds = line.train_seconds,
                                 .bytes_sent = static_cast<double>(line.bytes_sent),
                                 .samples_per_second = line.samples_per_second,
                                 .staleness_mean = line.staleness_mean};
  for (const auto& worker : line.workers) {
    figures.steps += static_cast<double>(worker.steps);
    figures.busy += worker.busy;
    figures.exchange_wait += worker.exchange_wait;
  }
  return figures;
}

void print_against(const std::filesystem::path& folder, const comparing::run_figures& real,
                   const std::filesystem::path& simulated, const plan& plan, const comparing::simulate_timing& simulate,
                   bool json) {
  const auto predicted = comparing::read_figures(simulated);
  const auto gradient = *topology::parse_delay(plan.file.simulate.gradient);
  const auto why = comparing::explain(real, predicted, gradient, simulate);
  const auto quantities = comparing::quantities_of(real, predicted);
  const auto text = json ? comparing::json_of(folder, quantities, why, gradient) + "\n"
                         : for_terminal(comparing::text_of(folder, quantities, why, gradient));
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace troupe::apps
