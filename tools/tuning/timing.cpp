#include "troupe/tools/tuning/timing.hpp"

#include "troupe/runtime/launch/launcher.hpp"
#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/simulation/simulate_run.hpp"
#include "troupe/runtime/support/units.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace troupe::tuning {

namespace {

/// Removes what ends a run early or does not affect its speed.
topology::topology shortened(topology::topology file, std::uint64_t steps) {
  file.faults.clear();
  file.checkpoint = {};
  file.evaluate.target_accuracy.reset();
  file.evaluate.patience.reset();
  file.run.max_seconds.reset();
  file.run.epochs.reset();
  file.run.steps = steps;
  file.evaluate.every = {.count = steps};
  return file;
}

double microseconds_of(const std::string& delay) {
  return static_cast<double>(topology::parse_delay(delay)->count());
}

}  // namespace

rehearsal::rehearsal(const topology::topology& base) : data_(load_data(base)) {}

real_times rehearsal::measure(topology::topology& base) {
  auto measured = base;
  measured.simulate.gradient = "measure";
  auto plan = make_plan(measured, data_facts(data_, measured));
  initial_ = initial_weights(plan, pool_);
  settle_durations(plan, data_, initial_, pool_);
  const auto& gradient = plan.file.simulate.gradient;
  if (base.simulate.gradient == "measure") base.simulate.gradient = gradient;
  real_times times{.gradient = microseconds_of(gradient) / 1e6};
  // A forward pass takes a third of a gradient.
  const auto batches = static_cast<double>(plan.facts.evaluated) / static_cast<double>(plan.sampling.batch_size);
  times.evaluation = batches * times.gradient / 3;
  return times;
}

plan rehearsal::planned(const topology::topology& file, std::uint64_t least) const {
  auto made = make_plan(file, data_facts(data_, file));
  for (const auto& exchange : made.exchanges)
    if (exchange.nature.in_loop && exchange.due.longest_interval() * least > made.steps)
      throw std::runtime_error("the run has only " + counted(made.steps, "step") +
                               ", and the exchange takes place every " + grouped(exchange.due.longest_interval()));
  return made;
}

pace rehearsal::pace_of(const topology::topology& file) {
  const auto facts = data_facts(data_, file);
  const auto whole = make_plan(file, facts);
  std::uint64_t longest = 1;
  for (const auto& exchange : whole.exchanges) longest = std::max(longest, exchange.due.longest_interval());
  // Several rounds, so that an exchange of which part is under way counts little.
  constexpr std::uint64_t rounds = 4, least = 48, most = 2048;
  const auto steps = std::min({whole.steps, std::max(rounds, (least + longest - 1) / longest) * longest, most});
  if (steps == 0) throw std::runtime_error("the run has no steps");
  const auto last = simulate_timing(make_plan(shortened(file, steps), facts), data_, initial_, pool_, {});
  const auto workers = static_cast<double>(whole.workers), count = static_cast<double>(steps);
  return {.seconds = last.train_seconds / count,
          .megabytes = static_cast<double>(last.bytes_sent) / 1e6 / workers / count};
}

}  // namespace troupe::tuning
