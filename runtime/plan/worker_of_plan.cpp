#include "troupe/runtime/plan/worker_of_plan.hpp"

#include "troupe/algorithms/exchange/shared/shared.hpp"
#include "troupe/algorithms/support/assert.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

namespace {

std::shared_ptr<const std::vector<range>> shared_buckets(const planned_exchange& exchange) {
  return exchange.buckets.empty() ? nullptr : std::make_shared<const std::vector<range>>(exchange.buckets);
}

/// Returns whether a worker takes part in an exchange.
bool takes_part(const plan& plan, const planned_exchange& exchange, std::uint32_t rank) {
  if (exchange.members.size() == plan.workers) return true;
  return std::any_of(exchange.members.begin(), exchange.members.end(), [&](const auto& member) {
    return std::find(member.ranks.begin(), member.ranks.end(), rank) != member.ranks.end();
  });
}

/// Returns the loop of one worker, without the exchanges in which it does not take part.
std::vector<loop_word> loop_of(const plan& plan, std::uint32_t rank) {
  std::vector<loop_word> loop;
  for (const auto& word : plan.file.workers.loop) {
    if (word == "gradient")
      loop.emplace_back(verb::gradient);
    else if (word == "apply")
      loop.emplace_back(verb::apply);
    else {
      const auto named = [&](const planned_exchange& exchange) { return exchange.name == word; };
      const auto exchange = std::find_if(plan.exchanges.begin(), plan.exchanges.end(), named);
      TROUPE_ASSERT(exchange != plan.exchanges.end(), "every word of a loop is a verb or an exchange");
      if (!takes_part(plan, *exchange, rank)) continue;
      loop.emplace_back(exchange_word{.place = static_cast<std::uint32_t>(exchange - plan.exchanges.begin()),
                                      .sends = exchange->carries.sends,
                                      .answers = exchange->carries.answers,
                                      .when = exchange->due,
                                      .elements = exchange->layout.parameter_end,
                                      .gradient_first = exchange->layout.parameter_end > plan.layout.parameter_end ||
                                                        plan.memory_of(rank) != nullptr,
                                      .buckets = shared_buckets(*exchange),
                                      .on_device = exchange->nature.carried_by == carrier::device_library});
    }
  }
  return loop;
}

/// Returns the number of steps per request, at least `few`: thousands if a step is a row of a sparse set, and a
/// multiple of the local steps.
std::uint32_t steps_at_once(const plan& plan, std::uint32_t rank, std::int64_t few = 16) {
  constexpr std::int64_t rows = 65'536, most = std::numeric_limits<std::int32_t>::max();
  const auto sparse = makes_sparse_steps(*plan.model, plan.optimizer);
  const auto least = sparse ? std::max(few, rows / plan.sampling.batch_size) : few;
  const auto local = static_cast<std::int64_t>(local_steps(plan, rank));
  return static_cast<std::uint32_t>(std::min(most, (least + local - 1) / local * local));
}

/// Returns whether the parameters of workers diverge and an exchange brings them together.
bool shows_contributions(const plan& plan) {
  return plan.stores().empty() && !plan.replicas_agree() &&
         std::any_of(plan.exchanges.begin(), plan.exchanges.end(),
                     [](const auto& exchange) { return exchange.carries.sends == slot::parameters; });
}

/// Returns the names of all exchanges, by place.
std::vector<std::string> names_of_exchanges(const plan& plan) {
  std::vector<std::string> names;
  for (const auto& exchange : plan.exchanges) names.push_back(exchange.name);
  return names;
}

}  // namespace

run_id run_id_of(const plan& plan) {
  constexpr std::uint64_t spread = 0x9e3779b97f4a7c15;
  const auto elements = static_cast<std::uint64_t>(plan.layout.total);
  return run_id{(plan.file.run.seed * spread + elements) * spread + plan.workers};
}

trained_network trained_network_of(const plan& plan) {
  return {.model = plan.model,
          .shape = plan.shape,
          .loss = plan.loss,
          .layout = plan.layout,
          .scale = plan.scale,
          .seed = plan.file.run.seed,
          .threads = plan.file.run.threads};
}

bool works_in_lockstep(const plan& plan) {
  return !plan.workers_are_independent() && !plan.draws_from_queue();
}

bool shows_replica(const plan& plan, std::uint32_t rank) {
  if (plan.memory_of(rank)) return false;
  if (plan.file.evaluate.each_worker) return true;
  const auto for_buffers = rank == 0 || !(plan.buffers_agree() || plan.file.evaluate.buffers == "first");
  if (!plan.stores().empty()) return plan.layout.total > plan.layout.parameter_end && for_buffers;
  return for_buffers || !plan.replicas_agree();
}

std::uint32_t local_steps(const plan& plan, std::uint32_t rank) {
  const auto* memory = plan.memory_of(rank);
  return memory ? static_cast<std::uint32_t>(local_steps_of(memory->settings)) : 1;
}

std::uint32_t batches_at_once(const plan& plan) {
  return steps_at_once(plan, 0, 4);
}

actor_label label_of_port(const plan& plan, std::uint32_t place, std::uint32_t id) {
  const auto& exchange = plan.exchanges.at(place);
  return id < plan.workers ? label_of_port(exchange.name, place, id)
                           : label_of_server(exchange.name, place, id - exchange.first_server);
}

std::uint32_t node_of(const plan& plan, const actor_id& actor) {
  switch (actor.what) {
    case role::worker:
    case role::compute:
    case role::port:
      return plan.node_of(actor.rank);
    case role::copies:
      return actor.rank;
    default:
      return 0;
  }
}

replica_options replica_options_of(const plan& plan, const data::dataset_pair& data, std::uint32_t rank,
                                   models::buffer_pool pool) {
  const auto& file = plan.file;
  replica_options options{trained_network_of(plan)};
  options.run = run_id_of(plan);
  options.rank = rank_id{rank};
  options.pool = std::move(pool);
  options.samples = data.train;
  options.sampling = data::of_worker(plan.sampling, rank);
  options.optimizer = plan.optimizer;
  options.micro_batches = plan.micro_batches;
  options.local_steps = local_steps(plan, rank);
  options.batches = plan.steps;
  options.augment = plan.augment;
  options.bfloat16 = file.workers.precision == "bfloat16";
  options.stop_on_non_finite = file.run.stop_on_non_finite;
  return options;
}

worker_options options_of_worker(const plan& plan, std::uint32_t rank, const at::Tensor& initial) {
  worker_options options;
  options.rates = plan.optimizer.schedule.changes;
  options.run = run_id_of(plan);
  options.rank = rank_id{rank};
  options.loop = loop_of(plan, rank);
  options.exchanges = names_of_exchanges(plan);
  options.when = plan.when;
  options.initial = {{.run = options.run, .sender = options.rank}, initial};
  options.timeout = plan.file.run.timeout;
  options.steps_at_once = steps_at_once(plan, rank);
  options.shows_contributions = shows_contributions(plan);
  options.draws_from_queue = plan.draws_from_queue();
  options.synchronised_norms = plan.norms() != nullptr;
  return options;
}

}  // namespace troupe
