#include "troupe/runtime/launch/spawn_exchange.hpp"

#include "troupe/actors/port/collective_port.hpp"
#include "troupe/algorithms/exchange/around/wrapper.hpp"
#include "troupe/algorithms/exchange/registry.hpp"
#include "troupe/runtime/emulation/links.hpp"
#include "troupe/runtime/launch/spawn_keeper.hpp"
#include "troupe/runtime/plan/batches.hpp"
#include "troupe/runtime/plan/network_costs.hpp"
#include "troupe/runtime/plan/worker_of_plan.hpp"
#include "troupe/runtime/seats/seat.hpp"

#include <caf/all.hpp>

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace troupe {

namespace {

/// Elements that a fold may read in a handler: about a fifth of a millisecond. Ports with larger folds get lanes.
constexpr std::int64_t most_elements_in_place = 1024 * 1024;

/// Returns the schedule of a server that does not hold the result and is never asked for it.
schedule nothing_is_asked() {
  constexpr auto never = std::numeric_limits<std::uint64_t>::max();
  return {.steps = never, .steps_per_epoch = never, .evaluate_every = never};
}

/// What the ports of an exchange have in common. There may be a million of them.
struct exchange_ports {
  const troupe::plan& plan;
  const launch_options& options;
  std::uint32_t place;
  const planned_exchange& exchange = plan.exchanges[place];
  const exchange_traffic& traffic = plan.traffic[place];
  std::vector<std::uint32_t> ids = exchange.ids();
  membership among = membership_of_first();
  bool is_store = holds_result();
  /// See member_options::settings_by_bucket.
  std::shared_ptr<const std::vector<setting_values>> settings_by_bucket = settings_of_buckets();

  membership membership_of_first() const {
    membership result{.world_size = static_cast<std::uint32_t>(ids.size()) - exchange.nature.servers,
                      .servers = exchange.nature.servers};
    const auto are_indices = ids.back() + 1 == ids.size();
    for (const auto id : ids) {
      if (!are_indices) result.ids.push_back(rank_id{id});
      if (plan.nodes.size() > 1) result.nodes.push_back(plan.node_of(id));
    }
    return result;
  }

  std::shared_ptr<const std::vector<setting_values>> settings_of_buckets() const {
    if (exchange.buckets.empty() || traffic.choices.empty()) return nullptr;
    auto values = std::make_shared<std::vector<setting_values>>();
    for (const auto& choice : traffic.choices) values->push_back(choice.settings);
    return values;
  }

  /// Returns the settings of the members. settings_by_bucket takes precedence over them.
  const setting_values& settings() const {
    return traffic.choices.empty() ? exchange.settings_by_index : traffic.choices.front().settings;
  }

  bool holds_result() const {
    const auto stores = plan.stores();
    return std::find(stores.begin(), stores.end(), &exchange) != stores.end();
  }
};

/// Returns the peers of the member or server with this index, itself included.
std::vector<rank_id> peers_of_port(const exchange_traffic& traffic, std::uint32_t index) {
  std::vector<rank_id> peers{rank_id{index}};
  for (const auto peer : traffic.peers.at(index)) peers.push_back(rank_id{peer});
  std::sort(peers.begin(), peers.end());
  return peers;
}

/// Returns the options of the port of the member or server with this index.
port_options options_of_port(const exchange_ports& common, std::uint32_t index) {
  const auto& plan = common.plan;
  const auto& options = common.options;
  const auto& exchange = common.exchange;
  member_options own{.among = common.among,
                     .seed = plan.file.run.seed,
                     .place = common.place,
                     .layout = exchange.layout,
                     .carries = exchange.carries,
                     .pool = options.pool,
                     .settings = common.settings(),
                     .settings_by_bucket = common.settings_by_bucket,
                     .common = exchange.common,
                     .chunk_elements = options.far ? chunk_elements_of(plan) : 0,
                     .buckets = exchange.buckets,
                     .due = exchange.due,
                     .when = common.is_store ? plan.when : nothing_is_asked(),
                     .counts_updates = plan.draws_from_queue(),
                     .optimizer = plan.optimizer,
                     .initial = options.initial};
  own.among.rank = rank_id{index};
  delivery_order deliveries;
  if (own.among.is_server()) {
    if (options.deliveries.order_of && !exchange.nature.deterministic)
      deliveries = options.deliveries.order_of(common.ids[index]);
  }
  trace_track track;
  if (options.trace) track = {options.trace, label_of_port(plan, common.place, common.ids[index]).name + " parts"};
  return {.run = run_id_of(plan),
          .name = exchange.name,
          .actor = exchange.nature.actor,
          .timeout = plan.file.run.timeout,
          .answers_buckets = exchange.of_norms,
          .passes = exchange.of_norms ? passes_of(plan) : pass_count{},
          .how = exchange.codec.how,
          .peers = peers_of_port(common.traffic, index),
          .deliveries = std::move(deliveries),
          .track = std::move(track),
          .own = std::move(own)};
}

/// Returns a function that makes a lane if folds are too long for a handler.
lane_for_fold lane_if_long(lane_factory& lanes, const actor_label& owner) {
  return [&lanes, owner](std::int64_t largest_fold) {
    return largest_fold <= most_elements_in_place ? nullptr : lanes.make(owner);
  };
}

/// Spawns the ports of an exchange in the GPUs' own library. All its workers are on this node: see check_carrier().
spawned_exchange spawn_collective(caf::actor_system& system, const plan& plan, std::uint32_t place, lane_factory& lanes,
                                  const launch_options& options, std::vector<labelled_actor>& spawned) {
  const auto& exchange = plan.exchanges[place];
  const auto id = device::make_nccl_id();
  const exchange_ports common{plan, options, place};
  spawned_exchange result;
  std::vector<peer_port> peers;
  for (const auto rank : exchange.ranks()) {
    const auto label = label_of_port(plan, place, rank);
    const auto own = options_of_port(common, static_cast<std::uint32_t>(peers.size()));
    const auto port =
        device::spawn_collective_port(system, own, device::open_nccl(plan.devices.at(rank)), id, lanes.make(label));
    result.ports.emplace(rank, port);
    peers.emplace_back(port);
    spawned.push_back({label, caf::actor_cast<caf::actor>(port)});
  }
  for (const auto& [rank, port] : result.ports) caf::anon_send(port, wire_atom_v, peers);
  return result;
}

/// Makes the memory of an exchange, or maps that of the first node. The first node also has the server that keeps the
/// memory. The workers of the exchange have no ports.
spawned_exchange spawn_memory(caf::actor_system& system, const plan& plan, std::uint32_t place, lane_factory& lanes,
                              const launch_options& options, std::vector<labelled_actor>& spawned) {
  const auto& exchange = plan.exchanges[place];
  const auto& layout = plan.layout;
  if (options.node != 0)
    return {.ports = {},
            .entrances = {},
            .memory = shared_memory::open(options.far->memories.at(place), layout.total, layout.parameter_end,
                                          exchange.nature.writes)};
  spawned_exchange result{
      .ports = {},
      .entrances = {},
      .memory = shared_memory::make(options.initial, layout.parameter_end, exchange.nature.writes, exchange.cores)};
  const auto label = label_of_port(plan, place, exchange.first_server);
  auto own = options_of_port({plan, options, place}, 0);
  own.peers.clear();
  own.own.among = {.world_size = 0, .servers = 1, .ids = {rank_id{exchange.first_server}}};
  own.own.memory = result.memory;
  own.own.memory_lock = result.memory->lock_for(keeper_of_memory);
  if (options.deliveries.order_of) own.deliveries = options.deliveries.order_of(exchange.first_server);
  if (own.own.memory_lock && options.deliveries.lock_order_of)
    result.order = options.deliveries.lock_order_of(exchange.first_server, result.memory);
  if (result.order) {
    own.own.memory_lock = lock_in(result.order, keeper_of_memory, nullptr);
    own.deliveries.is_ready = [order = result.order] { return order->is_due(keeper_of_memory); };
  }
  const auto port = spawn_port(system, own, exchange.kind->make_member, lane_if_long(lanes, label));
  spawned.push_back({label, caf::actor_cast<caf::actor>(port)});
  caf::anon_send(port, wire_atom_v, std::vector<peer_port>{port});
  if (result.order) result.order->on_keeper_due([port] { caf::anon_send(port, tick_atom_v); });
  result.ports.emplace(exchange.first_server, port);
  return result;
}

/// Returns proxies for the ports on other nodes with which ports of this node exchange parts, by index.
std::map<std::uint32_t, peer_port> far_peers(const plan& plan, std::uint32_t place,
                                             const std::vector<std::uint32_t>& ids, const launch_options& options,
                                             std::vector<labelled_actor>& spawned) {
  std::map<std::uint32_t, peer_port> far;
  if (!options.far) return far;
  const auto& traffic = plan.traffic[place];
  const auto is_here = [&](std::uint32_t index) { return plan.node_of(ids[index]) == options.node; };
  for (std::uint32_t index = 0; index < ids.size(); ++index) {
    if (!is_here(index)) continue;
    for (const auto peer : traffic.peers[index]) {
      if (is_here(peer) || far.contains(peer)) continue;
      const auto id = ids[peer];
      far.emplace(peer, options.far->port_of(id));
      const auto peer_name = id < plan.workers ? "rank " + std::to_string(id) : label_of_port(plan, place, id).name;
      spawned.push_back({{{.what = role::link}, "link to " + peer_name}, caf::actor_cast<caf::actor>(far.at(peer))});
    }
  }
  return far;
}

/// Puts the receiving half of emulated links in front of each port of this node.
void emulate_arrivals(caf::actor_system& system, const exchange_ports& common, emulation::network& network,
                      spawned_exchange& result, std::vector<labelled_actor>& spawned) {
  const auto& ids = common.ids;
  for (std::uint32_t index = 0; index < ids.size(); ++index) {
    const auto entrance = result.entrances.find(ids[index]);
    if (entrance == result.entrances.end()) continue;
    emulation::routes from;
    for (const auto peer : common.traffic.peers[index]) {
      auto route = network.between(ids[peer], ids[index]);
      if (route.is_emulated()) from.emplace(ids[peer], std::move(route));
    }
    if (from.empty()) continue;
    entrance->second = emulation::spawn_receiving_half(system, std::move(from), entrance->second);
    spawned.push_back(
        {{{.what = role::interface}, "interface of " + common.exchange.name + " " + std::to_string(ids[index])},
         caf::actor_cast<caf::actor>(entrance->second)});
  }
}

/// Returns the links on which a port sends, as far as they are emulated or their traffic is counted.
emulation::senders links_from(const exchange_ports& common, std::uint32_t index, emulation::network& network) {
  emulation::senders links;
  for (const auto peer : common.traffic.peers[index]) {
    const auto from = common.ids[index], to = common.ids[peer];
    auto route = network.between(from, to);
    if (!route.is_emulated() && !network.counts()) continue;
    auto meter = network.meter_of(from, to, route.sending);
    auto answered = network.is_server(from) ? network.meter_of(to, from) : nullptr;
    links.emplace(rank_id{peer}, emulation::departure{.by = emulation::sender{std::move(route), network.seed()},
                                                      .meter = std::move(meter),
                                                      .answered = std::move(answered)});
  }
  return links;
}

/// Spawns the ports of an exchange that belong to this node and wires each to the ports with which it exchanges parts.
spawned_exchange spawn_ports(caf::actor_system& system, const plan& plan, std::uint32_t place, lane_factory& lanes,
                             const launch_options& options, std::vector<labelled_actor>& spawned) {
  const auto& exchange = plan.exchanges[place];
  const auto maker = wrapped(exchange.kind->make_member, exchange.wrappers);
  const exchange_ports common{plan, options, place};
  const auto& ids = common.ids;
  auto others = far_peers(plan, place, ids, options, spawned);
  spawned_exchange result;
  std::vector<std::uint32_t> own_indices;  // of the ports of this node
  for (std::uint32_t index = 0; index < ids.size(); ++index) {
    const auto id = ids[index];
    if (options.far && plan.node_of(id) != options.node) continue;
    const auto label = label_of_port(plan, place, id);
    auto given = options_of_port(common, index);
    if (options.links) given.departure = emulation::departures_over(links_from(common, index, *options.links));
    const auto seat = given.own.among.is_server() && !options.seats.empty() ? options.seats[place] : nullptr;
    given.own.remote = seat;
    const auto port = spawn_port(system, std::move(given), maker, lane_if_long(lanes, label));
    if (seat) {
      seat->deliver_to(port);
      result.keeper = spawn_keeper(system, port, seat, plan.file.run.timeout);
      spawned.push_back(
          {{{.what = role::link}, "link to actor " + seat->actor()}, caf::actor_cast<caf::actor>(result.keeper)});
    }
    own_indices.push_back(index);
    result.ports.emplace(id, port);
    result.entrances.emplace(id, port);
    spawned.push_back({label, caf::actor_cast<caf::actor>(port)});
  }
  if (options.links) emulate_arrivals(system, common, *options.links, result, spawned);
  for (const auto index : own_indices) others.emplace(index, result.entrances.at(ids[index]));
  for (const auto index : own_indices) {
    const auto& own = result.ports.at(ids[index]);
    std::vector<peer_port> handles;
    for (const auto peer : peers_of_port(common.traffic, index)) {
      const auto which = static_cast<std::uint32_t>(peer);
      handles.push_back(which == index ? peer_port{own} : others.at(which));
    }
    caf::anon_send(own, wire_atom_v, std::move(handles));
  }
  return result;
}

}  // namespace

spawned_exchange spawn_exchange(caf::actor_system& system, const plan& plan, std::uint32_t place, lane_factory& lanes,
                                const launch_options& options, std::vector<labelled_actor>& spawned) {
  switch (plan.exchanges[place].nature.carried_by) {
    case carrier::ports:
      return spawn_ports(system, plan, place, lanes, options, spawned);
    case carrier::shared_memory:
      return spawn_memory(system, plan, place, lanes, options, spawned);
    case carrier::device_library:
      return spawn_collective(system, plan, place, lanes, options, spawned);
  }
  throw std::logic_error("an exchange has no carrier");
}

}  // namespace troupe
