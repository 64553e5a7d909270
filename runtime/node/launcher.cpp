#include "troupe/runtime/node/launcher.hpp"

#include "troupe/actors/compute.hpp"
#include "troupe/actors/port.hpp"
#include "troupe/actors/support/assert.hpp"
#include "troupe/actors/worker.hpp"
#include "troupe/runtime/checkpoint/model_file.hpp"
#include "troupe/runtime/topology/error.hpp"

#include <ATen/ATen.h>
#include <caf/all.hpp>

#include <algorithm>
#include <utility>

namespace troupe {

namespace {

/// Elements that one fold may read in a handler: about a tenth of a millisecond. Beyond, ports get lanes.
constexpr std::int64_t most_elements_in_place = 256 * 1024;

/// What says "this run" in every stamp: a function of the file's numbers, so that a replay has the same.
run_id id_of(const plan& plan) {
  return run_id{plan.file.run.seed * 0x9e3779b97f4a7c15ull + plan.steps};
}

std::vector<loop_word> loop_of(const plan& plan) {
  std::vector<loop_word> loop;
  for (const auto& word : plan.file.workers.loop) {
    if (word == "gradient")
      loop.emplace_back(verb::gradient);
    else if (word == "apply")
      loop.emplace_back(verb::apply);
    else {
      const auto named = [&](const planned_exchange& exchange) { return exchange.name == word; };
      const auto found = std::find_if(plan.exchanges.begin(), plan.exchanges.end(), named);
      TROUPE_ASSERT(found != plan.exchanges.end(), "every word of a loop is a verb or an exchange");
      loop.emplace_back(static_cast<std::uint32_t>(found - plan.exchanges.begin()));
    }
  }
  return loop;
}

schedule when(const plan& plan) {
  return {.steps = plan.steps, .steps_per_epoch = plan.steps_per_epoch, .evaluate_every = plan.evaluate_every};
}

/// Spawns the ports of one exchange, one for each worker, and wires them to each other.
std::vector<port_actor> spawn_ports(caf::actor_system& system, const plan& plan, std::uint32_t place,
                                    lane_factory& lanes, const launch_options& options, crew& into) {
  const auto& exchange = plan.exchanges[place];
  const auto in_place = plan.layout.parameter_end * plan.workers <= most_elements_in_place;
  std::vector<port_actor> ports;
  std::vector<peer_port> peers;
  for (std::uint32_t rank = 0; rank < plan.workers; ++rank) {
    const auto name = exchange.name + " " + std::to_string(rank);
    const port_options own{.run = id_of(plan),
                           .rank = rank_id{rank},
                           .world_size = plan.workers,
                           .place = place,
                           .name = exchange.name,
                           .layout = plan.layout,
                           .pool = options.pool,
                           .settings = exchange.settings,
                           .timeout = plan.file.run.timeout};
    ports.push_back(spawn_port(system, own, exchange.kind->make_member(own), in_place ? nullptr : lanes.make(name)));
    peers.emplace_back(ports.back());
    into.members.emplace_back(name, caf::actor_cast<caf::actor>(ports.back()));
  }
  for (const auto& port : ports) caf::anon_send(port, wire_atom_v, peers);
  return ports;
}

/// Ends what was spawned, unless all of it was.
struct half_launched {
  crew all;
  bool complete{false};
  ~half_launched() {
    if (!complete) dismiss(all);
  }
};

}  // namespace

at::Tensor initial_weights(const plan& plan, models::buffer_pool& pool) {
  if (const auto& path = plan.file.model.init; !path.empty()) {
    auto loaded = checkpoint::load_into(path, checkpoint::read_safetensors(path), plan.model->name, plan.layout, pool);
    if (!at::isfinite(loaded).all().item<bool>())
      throw input_error(path.string() + ": holds values that are not finite; give other weights to begin with");
    return loaded;
  }
  const auto network = models::make_network(*plan.model, plan.shape, plan.file.run.seed);
  return models::flatten(*network, plan.layout, pool);
}

crew launch(caf::actor_system& system, const plan& plan, const data::dataset_pair& data, lane_factory& lanes,
            const launch_options& options) {
  const auto& file = plan.file;
  half_launched guard;
  auto& result = guard.all;
  const auto remember = [&](const std::string& name, const auto& handle) {
    result.members.emplace_back(name, caf::actor_cast<caf::actor>(handle));
  };
  const auto recorder = spawn_recorder(system, plan.workers, options.book, lanes.make("recorder"));
  remember("recorder", recorder);
  const auto evaluator = spawn_evaluator(system,
                                         {.model = plan.model,
                                          .shape = plan.shape,
                                          .loss = plan.loss,
                                          .layout = plan.layout,
                                          .samples = data.test,
                                          .scale = plan.scale,
                                          .batch_size = file.evaluate.batch_size,
                                          .seed = file.run.seed,
                                          .threads = file.run.threads},
                                         lanes.make("evaluator"));
  remember("evaluator", evaluator);
  const auto agree = !plan.exchanges.empty() && std::all_of(plan.exchanges.begin(), plan.exchanges.end(),
                                                            [](const auto& one) { return one.kind->synchronous; });
  result.coordinator = spawn_coordinator(system,
                                         {.when = when(plan),
                                          .workers = plan.workers,
                                          .replicas_agree = agree,
                                          .pool = options.pool,
                                          .target_accuracy = file.evaluate.target_accuracy,
                                          .target_hold = file.evaluate.target_hold,
                                          .patience = file.evaluate.patience,
                                          .max_seconds = file.run.max_seconds,
                                          .timeout = file.run.timeout},
                                         evaluator, recorder, lanes.make("coordinator"));
  remember("coordinator", result.coordinator);

  std::vector<std::vector<port_actor>> ports;  // by exchange, then rank
  for (std::uint32_t place = 0; place < plan.exchanges.size(); ++place)
    ports.push_back(spawn_ports(system, plan, place, lanes, options, result));

  std::vector<directed_worker> workers;
  for (std::uint32_t rank = 0; rank < plan.workers; ++rank) {
    auto sampling = plan.sampling;
    sampling.rank = rank;
    const auto name = "compute " + std::to_string(rank);
    const auto compute = spawn_compute(system,
                                       {.run = id_of(plan),
                                        .rank = rank_id{rank},
                                        .model = plan.model,
                                        .shape = plan.shape,
                                        .loss = plan.loss,
                                        .layout = plan.layout,
                                        .pool = options.pool,
                                        .samples = data.train,
                                        .scale = plan.scale,
                                        .sampling = sampling,
                                        .optimizer = {.name = file.optimizer.name,
                                                      .lr = file.optimizer.lr,
                                                      .momentum = file.optimizer.momentum,
                                                      .weight_decay = file.optimizer.weight_decay,
                                                      .nesterov = file.optimizer.nesterov},
                                        .seed = file.run.seed,
                                        .threads = file.run.threads},
                                       lanes.make(name));
    remember(name, compute);
    std::vector<port_actor> own;
    for (const auto& of_exchange : ports) own.push_back(of_exchange[rank]);
    const snapshot initial{{.run = id_of(plan), .sender = rank_id{rank}}, options.initial};
    workers.push_back(spawn_worker(system,
                                   {.run = id_of(plan),
                                    .rank = rank_id{rank},
                                    .loop = loop_of(plan),
                                    .when = when(plan),
                                    .initial = initial,
                                    .timeout = file.run.timeout},
                                   compute, std::move(own), result.coordinator, recorder));
    remember("worker " + std::to_string(rank), workers.back());
  }
  result.workers = std::move(workers);
  guard.complete = true;
  return result;
}

void dismiss(const crew& crew) {
  for (const auto& [name, member] : crew.members) caf::anon_send_exit(member, caf::exit_reason::kill);
}

void begin(const crew& crew) {
  caf::anon_send(crew.coordinator, wire_atom_v, crew.workers);
}

}  // namespace troupe
