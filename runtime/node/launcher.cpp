#include "troupe/runtime/node/launcher.hpp"

#include "troupe/actors/compute.hpp"
#include "troupe/actors/device/collective_port.hpp"
#include "troupe/actors/exchange/buckets.hpp"
#include "troupe/actors/exchange/encoded.hpp"
#include "troupe/actors/exchange/shared.hpp"
#include "troupe/actors/port.hpp"
#include "troupe/actors/support/assert.hpp"
#include "troupe/actors/worker.hpp"
#include "troupe/runtime/checkpoint/model_file.hpp"
#include "troupe/runtime/checkpoint/read_weights.hpp"
#include "troupe/runtime/node/worker_of_plan.hpp"
#include "troupe/runtime/plan/batches.hpp"
#include "troupe/runtime/topology/error.hpp"

#include <ATen/ATen.h>
#include <caf/all.hpp>

#include <algorithm>
#include <limits>
#include <utility>

namespace troupe {

namespace {

/// Elements that one fold may read in a handler: about a fifth of a millisecond. Beyond, ports get lanes.
constexpr std::int64_t most_elements_in_place = 1024 * 1024;

/// Ranks [first, end).
struct rank_range {
  std::uint32_t first{0}, end{0};
};

/// Where ports send to other processes: 1 MiB, small enough to fold and send one piece while the next is on its way,
/// large enough that the thread wakes of a message cost little.
constexpr std::int64_t elements_of_a_chunk = 256 * 1024;

/// Of servers that do not hold the result.
schedule nothing_is_asked() {
  constexpr auto never = std::numeric_limits<std::uint64_t>::max();
  return {.steps = never, .steps_per_epoch = never, .evaluate_every = never};
}

/// Who takes part in an exchange, as the member or server with this index sees it.
membership membership_of(const plan& plan, const planned_exchange& exchange, std::uint32_t index) {
  membership among{.rank = rank_id{index},
                   .world_size = static_cast<std::uint32_t>(exchange.ranks().size()),
                   .servers = exchange.nature.servers};
  const auto ids = exchange.ids();
  // Thousands of members need no lists where these say nothing.
  const auto are_indices = ids.back() + 1 == ids.size();
  for (const auto id : ids) {
    if (!are_indices) among.ids.push_back(rank_id{id});
    if (plan.nodes.size() > 1) among.nodes.push_back(plan.node_of(id));
  }
  return among;
}

/// Options of the port of the member or server with this index.
port_options options_of_port(const plan& plan, std::uint32_t place, std::uint32_t index,
                             const launch_options& options) {
  const auto& exchange = plan.exchanges[place];
  const auto stores = plan.stores();
  const auto is_store = std::find(stores.begin(), stores.end(), &exchange) != stores.end();
  member_options own{.among = membership_of(plan, exchange, index),
                     .seed = plan.file.run.seed,
                     .place = place,
                     .layout = exchange.layout,
                     .pool = options.pool,
                     .settings = exchange.settings_by_index,
                     .common = exchange.common,
                     .chunk_elements = options.far ? elements_of_a_chunk : 0,
                     .buckets = exchange.buckets,
                     .due = exchange.due,
                     .when = is_store ? schedule_of(plan) : nothing_is_asked(),
                     .counts_updates = plan.draws_from_queue(),
                     .optimizer = plan.optimizer,
                     .initial = {}};
  if (own.among.is_server()) own.initial = options.initial;
  return {.run = id_of(plan),
          .name = exchange.name,
          .timeout = plan.file.run.timeout,
          .answers_buckets = exchange.of_norms,
          .passes = exchange.of_norms ? passes_of(plan) : pass_count{},
          .carries = exchange.carries,
          .how = exchange.how,
          .own = std::move(own)};
}

/// Returns what makes the members of an exchange. From the inside out: the algorithm; the groups of workers that take
/// part as one member; the buckets, each an exchange of its own; the encoding of what is sent.
member_maker maker_of(const planned_exchange& exchange) {
  auto make = exchange.kind->make_member;
  if (exchange.has_groups())
    make = [groups = exchange.groups(), inner = std::move(make)](const member_options& own) {
      return make_group_member({.groups = groups, .own = own, .make_inner = inner});
    };
  if (!exchange.buckets.empty())
    make = [inner = std::move(make)](const member_options& own) { return make_bucketed_member(own, inner); };
  if (exchange.how != encoding::float32)
    make = [how = exchange.how, same = exchange.nature.same_for_all,
            inner = std::move(make)](const member_options& own) { return make_encoded_member(own, how, same, inner); };
  return make;
}

/// Returns a lane for folds that are too long for a handler.
lane_for_fold lane_if_long(lane_factory& lanes, const std::string& name) {
  return [&lanes, name](std::int64_t largest_fold) {
    return largest_fold <= most_elements_in_place ? nullptr : lanes.make(name);
  };
}

/// Spawns the ports of an exchange in the GPUs' own library: all its workers are here, see refusal_of_collective().
std::map<std::uint32_t, port_actor> spawn_collective(caf::actor_system& system, const plan& plan, std::uint32_t place,
                                                     lane_factory& lanes, const launch_options& options, crew& into) {
  const auto& exchange = plan.exchanges[place];
  const auto id = device::make_nccl_id();
  std::map<std::uint32_t, port_actor> ports;
  std::vector<peer_port> peers;
  for (const auto rank : exchange.ranks()) {
    const auto name = exchange.name + " " + std::to_string(rank);
    const auto own = options_of_port(plan, place, static_cast<std::uint32_t>(peers.size()), options);
    const auto port =
        device::spawn_collective_port(system, own, device::open_nccl(plan.devices.at(rank)), id, lanes.make(name));
    ports.emplace(rank, port);
    peers.emplace_back(port);
    into.members.emplace_back(name, caf::actor_cast<caf::actor>(port));
  }
  for (const auto& [rank, port] : ports) caf::anon_send(port, wire_atom_v, peers);
  return ports;
}

/// Makes the memory of an exchange, or maps the first node's.
std::shared_ptr<shared_memory> memory_of(const plan& plan, std::uint32_t place, const launch_options& options) {
  const auto& exchange = plan.exchanges[place];
  if (exchange.nature.host != hosting::shared_memory) return nullptr;
  const auto& layout = plan.layout;
  if (options.node == 0)
    return shared_memory::make(options.initial, layout.parameter_end, exchange.nature.writes, exchange.cores);
  return shared_memory::open(options.far->memories.at(place), layout.total, layout.parameter_end,
                             exchange.nature.writes);
}

/// Spawns who keeps a memory. Its members have no port: they are told of nothing.
std::map<std::uint32_t, port_actor> spawn_keeper(caf::actor_system& system, const plan& plan, std::uint32_t place,
                                                 lane_factory& lanes, const launch_options& options, crew& into) {
  if (options.node != 0) return {};
  const auto& exchange = plan.exchanges[place];
  const auto name = exchange.name + " server 0";
  auto own = options_of_port(plan, place, 0, options);
  own.own.among = {.world_size = 0, .servers = 1, .ids = {rank_id{exchange.first_server}}};
  own.own.memory = into.memories[place];
  const auto port = spawn_port(system, own, exchange.kind->make_member, lane_if_long(lanes, name));
  into.members.emplace_back(name, caf::actor_cast<caf::actor>(port));
  caf::anon_send(port, wire_atom_v, std::vector<peer_port>{port});
  return {{exchange.first_server, port}};
}

/// Spawns the ports of one exchange that belong here, and wires them to all others.
std::map<std::uint32_t, port_actor> spawn_ports(caf::actor_system& system, const plan& plan, std::uint32_t place,
                                                lane_factory& lanes, const launch_options& options, crew& into) {
  const auto& exchange = plan.exchanges[place];
  if (exchange.nature.host == hosting::device_library)
    return spawn_collective(system, plan, place, lanes, options, into);
  if (exchange.nature.host == hosting::shared_memory) return spawn_keeper(system, plan, place, lanes, options, into);
  const auto maker = maker_of(exchange);
  std::map<std::uint32_t, port_actor> ports;
  std::vector<peer_port> peers;
  for (const auto id : exchange.ids()) {
    const auto server = id >= plan.workers;
    if (options.far && plan.node_of(id) != options.node) {
      peers.push_back(options.far->port_of(id));
      into.members.emplace_back(
          "link to " + (server ? exchange.name + " server " + std::to_string(id - exchange.first_server)
                               : "rank " + std::to_string(id)),
          caf::actor_cast<caf::actor>(peers.back()));
      continue;
    }
    const auto name =
        exchange.name + (server ? " server " + std::to_string(id - exchange.first_server) : " " + std::to_string(id));
    const auto own = options_of_port(plan, place, static_cast<std::uint32_t>(peers.size()), options);
    const auto port = spawn_port(system, own, maker, lane_if_long(lanes, name));
    ports.emplace(id, port);
    peers.emplace_back(port);
    into.members.emplace_back(name, caf::actor_cast<caf::actor>(port));
  }
  for (const auto& [id, port] : ports) caf::anon_send(port, wire_atom_v, peers);
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

/// The servers whose parameters are the run's result.
std::vector<holder_actor> holders_of(const plan& plan, const crew& so_far) {
  std::vector<holder_actor> holders;
  for (const auto* store : plan.stores()) {
    const auto& ports = so_far.ports[static_cast<std::size_t>(store - plan.exchanges.data())];
    for (std::uint32_t i = 0; i < store->nature.servers; ++i) holders.emplace_back(ports.at(store->first_server + i));
  }
  return holders;
}

/// All servers, under their names in a checkpoint.
std::vector<named_server> servers_of(const plan& plan, const crew& so_far) {
  std::vector<named_server> servers;
  for (std::size_t place = 0; place < plan.exchanges.size(); ++place) {
    const auto& exchange = plan.exchanges[place];
    for (std::uint32_t i = 0; i < exchange.nature.servers; ++i)
      servers.push_back(
          {exchange.name + " server " + std::to_string(i), so_far.ports[place].at(exchange.first_server + i)});
  }
  return servers;
}

/// How much each of several memories counts in the result: as much as it has workers.
std::vector<std::int64_t> weights_of_holders(const plan& plan) {
  std::vector<std::int64_t> weights;
  for (const auto* store : plan.stores())
    if (!store->nature.in_loop) weights.push_back(static_cast<std::int64_t>(store->ranks().size()));
  return weights;
}

/// What only the first node has.
void spawn_direction(caf::actor_system& system, const plan& plan, const data::dataset_pair& data, lane_factory& lanes,
                     const launch_options& options, crew& into) {
  const auto& file = plan.file;
  into.recorder = spawn_recorder(system, plan.workers, plan.draws_from_queue(), options.book, lanes.make("recorder"));
  into.members.emplace_back("recorder", caf::actor_cast<caf::actor>(into.recorder));
  const auto evaluator = spawn_evaluator(system,
                                         {.model = plan.model,
                                          .shape = plan.shape,
                                          .loss = plan.loss,
                                          .layout = plan.layout,
                                          .samples = data.test,
                                          .scale = plan.scale,
                                          .how = evaluation_of(plan),
                                          .seed = file.run.seed,
                                          .threads = file.run.threads},
                                         lanes.make("evaluator"));
  into.members.emplace_back("evaluator", caf::actor_cast<caf::actor>(evaluator));
  std::size_t replicas = 0;
  for (std::uint32_t rank = 0; rank < plan.workers; ++rank) replicas += shows_replica(plan, rank) ? 1 : 0;
  into.coordinator = spawn_coordinator(system,
                                       {.when = schedule_of(plan),
                                        .workers = plan.workers,
                                        .replicas = replicas,
                                        .replicas_agree = plan.replicas_agree(),
                                        .holders = holders_of(plan, into),
                                        .holder_weights = weights_of_holders(plan),
                                        .servers = servers_of(plan, into),
                                        .restored = options.restored,
                                        .restore_far = options.far ? options.far->restore : nullptr,
                                        .evaluates_replicas = file.evaluate.each_worker,
                                        .in_lockstep = !plan.workers_are_independent() && !plan.draws_from_queue(),
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
                                        .lr = plan.optimizer.lr,
                                        .lr_over_time = plan.optimizer.schedule},
                                       evaluator, into.recorder, lanes.make("coordinator"));
  into.members.emplace_back("coordinator", caf::actor_cast<caf::actor>(into.coordinator));
}

norm_exchange norms_of(const plan& plan) {
  const auto* norms = plan.norms();
  if (!norms) return {};
  return {.place = static_cast<std::uint32_t>(norms - plan.exchanges.data()),
          .buckets = norms->buckets,
          .total = norms->layout.parameter_end,
          .passes = passes_of(plan)};
}

/// None for the CPU, unless a test brings its own.
std::shared_ptr<device::accelerator> device_of(const plan& plan, std::uint32_t rank, const launch_options& options) {
  const auto where = plan.devices.empty() ? c10::Device{c10::kCPU} : plan.devices.at(rank);
  if (options.open_device) return options.open_device(rank, where);
  return where.is_cpu() ? nullptr : device::open(where);
}

compute_actor spawn_compute_of(caf::actor_system& system, const plan& plan, const data::dataset_pair& data,
                               std::uint32_t rank, lane_factory& lanes, const launch_options& options, crew& into) {
  const auto& file = plan.file;
  auto sampling = plan.sampling;
  sampling.rank = rank;
  const auto name = "compute " + std::to_string(rank);
  const auto norms = norms_of(plan);
  const auto* memory = plan.memory_of(rank);
  const auto compute = spawn_compute(
      system,
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
       .optimizer = plan.optimizer,
       .seed = file.run.seed,
       .threads = file.run.threads,
       .micro_batches = plan.micro_batches,
       .norms = norms,
       .accelerator = device_of(plan, rank, options),
       .memory = memory ? into.memories[static_cast<std::size_t>(memory - plan.exchanges.data())] : nullptr,
       .local_steps = local_steps(plan, rank),
       .cores = memory ? memory->cores : std::vector<int>{},
       .batches = plan.steps,
       .augment = plan.augment,
       .loading = options.loading,
       .bfloat16 = file.workers.precision == "bfloat16",
       .stop_on_non_finite = file.run.stop_on_non_finite},
      {.port = plan.norms() ? into.ports[norms.place].at(rank) : port_actor{}, .timeout = file.run.timeout},
      lanes.make(name));
  into.members.emplace_back(name, caf::actor_cast<caf::actor>(compute));
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
  for (std::uint32_t place = 0; place < plan.exchanges.size(); ++place)
    result.memories.push_back(memory_of(plan, place, options));
  for (std::uint32_t place = 0; place < plan.exchanges.size(); ++place)
    result.ports.push_back(spawn_ports(system, plan, place, lanes, options, result));
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
    result.members.emplace_back("link to the coordinator", caf::actor_cast<caf::actor>(far.results));
  }
  for (std::uint32_t rank = ours.first; rank < ours.end; ++rank) {
    auto own = contacts;
    own.compute = spawn_compute_of(system, plan, data, rank, lanes, options, result);
    for (const auto& of_exchange : result.ports) {
      const auto found = of_exchange.find(rank);
      own.ports.push_back(found == of_exchange.end() ? port_actor{} : found->second);
    }
    if (!shows_replica(plan, rank)) own.results = snapshot_sink{};
    result.workers.push_back(spawn_worker(system, options_of_worker(plan, rank, options.initial), std::move(own)));
    result.members.emplace_back("worker " + std::to_string(rank), caf::actor_cast<caf::actor>(result.workers.back()));
  }
  guard.complete = true;
  return result;
}

void dismiss(const crew& crew) {
  for (const auto& [name, member] : crew.members) caf::anon_send_exit(member, caf::exit_reason::kill);
}

void begin(const crew& crew, const std::vector<directed_worker>& workers) {
  caf::anon_send(crew.coordinator, wire_atom_v, workers);
}

}  // namespace troupe
