#include "troupe/runtime/launch/launcher.hpp"

#include "troupe/actors/compute/compute.hpp"
#include "troupe/actors/port/port.hpp"
#include "troupe/actors/worker/worker.hpp"
#include "troupe/algorithms/support/assert.hpp"
#include "troupe/files/error.hpp"
#include "troupe/runtime/checkpoint/model_file.hpp"
#include "troupe/runtime/checkpoint/read_weights.hpp"
#include "troupe/runtime/launch/spawn_exchange.hpp"
#include "troupe/runtime/plan/batches.hpp"
#include "troupe/runtime/plan/worker_of_plan.hpp"

#include <ATen/ops/isfinite.h>
#include <caf/all.hpp>

#include <algorithm>
#include <limits>
#include <utility>

namespace troupe {

namespace {

/// Ranks [first, end).
struct rank_range {
  std::uint32_t first{0}, end{0};
};

/// Terminates the actors spawned so far, unless the launch is complete.
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
    auto loaded = checkpoint::load_into(path, checkpoint::read_weights(path), plan.model->name, plan.layout, pool,
                                        plan.tied, plan.constants);
    if (!at::isfinite(loaded).all().item<bool>())
      throw input_error(path.string() +
                        ": the weights contain values that are not finite; choose other initial weights");
    return loaded;
  }
  const auto network = models::make_network(*plan.model, plan.shape, plan.file.run.seed);
  return models::flatten(*network, plan.layout, pool);
}

namespace {

/// Returns the servers whose parameters are the result of the run.
std::vector<holder_actor> holders_of(const plan& plan, const crew& so_far) {
  std::vector<holder_actor> holders;
  for (const auto* store : plan.stores()) {
    const auto& ports = so_far.ports[store->place];
    for (std::uint32_t i = 0; i < store->nature.servers; ++i) holders.emplace_back(ports.at(store->first_server + i));
  }
  return holders;
}

/// Returns all servers with their names in a checkpoint.
std::vector<named_server> servers_of(const plan& plan, const crew& so_far) {
  std::vector<named_server> servers;
  for (const auto& exchange : plan.exchanges)
    for (std::uint32_t i = 0; i < exchange.nature.servers; ++i) {
      const auto& keeper = so_far.keepers[exchange.place];
      servers.push_back({label_of_server(exchange.name, exchange.place, i).name,
                         keeper ? keeper : holder_actor{so_far.ports[exchange.place].at(exchange.first_server + i)}});
    }
  return servers;
}

/// Returns the weight of each shared memory in the result: its number of workers.
std::vector<std::int64_t> weights_of_holders(const plan& plan) {
  std::vector<std::int64_t> weights;
  for (const auto* store : plan.stores())
    if (!store->nature.in_loop) weights.push_back(static_cast<std::int64_t>(store->ranks().size()));
  return weights;
}

delivery_order order_of(const launch_options& options, std::uint32_t actor) {
  return options.deliveries.order_of ? options.deliveries.order_of(actor) : delivery_order{};
}

worker_options options_of_launched(const plan& plan, std::uint32_t rank, const launch_options& options) {
  auto result = options_of_worker(plan, rank, options.initial);
  if (options.deliveries.gate_of) result.gate = options.deliveries.gate_of(rank);
  if (const auto& note = options.on_step)
    result.on_step = [note, rank](std::uint64_t completed) { note(rank, completed); };
  if (options.trace) result.track = {options.trace, label_of_worker(rank).name};
  return result;
}

/// Spawns the actors that only the first node has: recorder, evaluator and coordinator.
void spawn_direction(caf::actor_system& system, const plan& plan, const data::dataset_pair& data, lane_factory& lanes,
                     const launch_options& options, crew& into) {
  const auto& file = plan.file;
  into.recorder = spawn_recorder(system,
                                 {.workers = plan.workers,
                                  .draws_from_queue = plan.draws_from_queue(),
                                  .journal = options.journal,
                                  .send_copy = options.far ? options.far->send_copy : nullptr,
                                  .copy_timeout = plan.file.run.timeout},
                                 lanes.make(label_of(role::recorder)));
  into.actors.push_back({label_of(role::recorder), caf::actor_cast<caf::actor>(into.recorder)});
  evaluator_options evaluated{trained_network_of(plan)};
  evaluated.samples = data.test;
  evaluated.how = evaluation_of(plan);
  evaluated.computes = options.computes;
  const auto evaluator = spawn_evaluator(system, std::move(evaluated), lanes.make(label_of(role::evaluator)));
  into.actors.push_back({label_of(role::evaluator), caf::actor_cast<caf::actor>(evaluator)});
  std::size_t replicas = 0;
  for (std::uint32_t rank = 0; rank < plan.workers; ++rank) replicas += shows_replica(plan, rank) ? 1 : 0;
  into.coordinator = spawn_coordinator(system,
                                       {.when = plan.when,
                                        .workers = plan.workers,
                                        .replicas = replicas,
                                        .replicas_agree = plan.replicas_agree(),
                                        .holders = holders_of(plan, into),
                                        .holder_weights = weights_of_holders(plan),
                                        .servers = servers_of(plan, into),
                                        .restored = options.restored,
                                        .evaluates_replicas = file.evaluate.each_worker,
                                        .in_lockstep = works_in_lockstep(plan),
                                        .batches_at_once = plan.draws_from_queue() ? batches_at_once(plan) : 0,
                                        .block = local_steps(plan, 0),
                                        .layout = plan.layout,
                                        .pool = options.pool,
                                        .first_buffers = file.evaluate.buffers == "first",
                                        .pauses = file.evaluate.pause_training,
                                        .stop = {.target_accuracy = file.evaluate.target_accuracy,
                                                 .target_hold = file.evaluate.target_hold,
                                                 .patience = file.evaluate.patience},
                                        .max_seconds = file.run.max_seconds,
                                        .timeout = file.run.timeout,
                                        .deliveries = order_of(options, 0),
                                        .lr = plan.optimizer.lr,
                                        .lr_over_time = plan.optimizer.schedule},
                                       evaluator, into.recorder, lanes.make(label_of(role::coordinator)));
  into.actors.push_back({label_of(role::coordinator), caf::actor_cast<caf::actor>(into.coordinator)});
}

norm_exchange norms_of(const plan& plan) {
  const auto* norms = plan.norms();
  if (!norms) return {};
  return {.place = norms->place,
          .buckets = norms->buckets,
          .total = norms->layout.parameter_end,
          .passes = passes_of(plan)};
}

/// Returns the device of a worker; null for the CPU unless a test supplies its own.
std::shared_ptr<device::accelerator> device_of(const plan& plan, std::uint32_t rank, const launch_options& options) {
  const auto where = plan.devices.empty() ? c10::Device{c10::kCPU} : plan.devices.at(rank);
  if (options.open_device) return options.open_device(rank, where);
  return where.is_cpu() ? nullptr : device::open(where);
}

compute_actor spawn_compute_of(caf::actor_system& system, const plan& plan, const data::dataset_pair& data,
                               std::uint32_t rank, lane_factory& lanes, const launch_options& options, crew& into) {
  const auto label = label_of_compute(rank);
  auto compute_options = replica_options_of(plan, data, rank, options.pool);
  compute_options.norms = norms_of(plan);
  compute_options.accelerator = device_of(plan, rank, options);
  if (const auto* memory = plan.memory_of(rank)) {
    compute_options.memory = into.memories[memory->place];
    compute_options.memory_order = into.lock_orders[memory->place];
    compute_options.cores = memory->cores;
  }
  if (!compute_options.accelerator) compute_options.engines = options.engines;
  compute_options.loading = options.loading;
  if (options.trace && options.loading) compute_options.track = {options.trace, label.name};
  compute_options.computes = options.computes;
  const auto port = plan.norms() ? into.ports[compute_options.norms.place].at(rank) : port_actor{};
  const auto compute = spawn_compute(system, std::move(compute_options),
                                     {.port = port, .timeout = plan.file.run.timeout}, lanes.make(label));
  into.actors.push_back({label, caf::actor_cast<caf::actor>(compute)});
  return compute;
}

}  // namespace

crew launch(caf::actor_system& system, const plan& plan, const data::dataset_pair& data, lane_factory& lanes,
            const launch_options& options) {
  half_launched guard;
  auto& result = guard.all;
  rank_range ours{0, plan.workers};
  if (options.far) {
    const auto& node = plan.nodes[options.node];
    ours = {node.first_rank, node.first_rank + node.workers};
  }
  for (std::uint32_t place = 0; place < plan.exchanges.size(); ++place) {
    auto spawned = spawn_exchange(system, plan, place, lanes, options, result.actors);
    result.ports.push_back(std::move(spawned.ports));
    result.entrances.push_back(std::move(spawned.entrances));
    result.memories.push_back(std::move(spawned.memory));
    result.lock_orders.push_back(std::move(spawned.order));
    result.keepers.push_back(std::move(spawned.keeper));
  }
  worker_contacts contacts;
  if (options.node == 0) {
    spawn_direction(system, plan, data, lanes, options, result);
    contacts = {.coordinator = result.coordinator,
                .results = result.coordinator,
                .states = result.coordinator,
                .recorder = result.recorder};
  } else {
    const auto& far = *options.far;
    contacts = {
        .coordinator = far.coordinator, .results = far.results, .states = far.results, .recorder = far.recorder};
    result.actors.push_back(
        {{{.what = role::link}, "link to the first node"}, caf::actor_cast<caf::actor>(far.results)});
  }
  for (std::uint32_t rank = ours.first; rank < ours.end; ++rank) {
    auto own = contacts;
    own.compute = spawn_compute_of(system, plan, data, rank, lanes, options, result);
    for (const auto& of_exchange : result.ports) {
      const auto port = of_exchange.find(rank);
      own.ports.push_back(port == of_exchange.end() ? port_actor{} : port->second);
    }
    if (!shows_replica(plan, rank)) own.results = snapshot_sink{};
    result.workers.push_back(spawn_worker(system, options_of_launched(plan, rank, options), std::move(own)));
    result.actors.push_back({label_of_worker(rank), caf::actor_cast<caf::actor>(result.workers.back())});
  }
  guard.complete = true;
  return result;
}

void dismiss(const crew& crew) {
  for (const auto& [label, actor] : crew.actors) caf::anon_send_exit(actor, caf::exit_reason::kill);
}

void begin(const crew& crew, const std::vector<directed_worker>& workers) {
  caf::anon_send(crew.coordinator, wire_atom_v, workers);
}

}  // namespace troupe
