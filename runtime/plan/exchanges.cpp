#include "troupe/algorithms/exchange/all_reduce/norm_statistics.hpp"
#include "troupe/algorithms/exchange/around/buckets.hpp"
#include "troupe/algorithms/exchange/around/choco.hpp"
#include "troupe/algorithms/exchange/around/codec.hpp"
#include "troupe/algorithms/exchange/around/encoded.hpp"
#include "troupe/algorithms/exchange/around/group.hpp"
#include "troupe/algorithms/exchange/around/low_rank.hpp"
#include "troupe/algorithms/exchange/around/outer.hpp"
#include "troupe/algorithms/exchange/around/power_sgd.hpp"
#include "troupe/algorithms/exchange/around/streaming.hpp"
#include "troupe/algorithms/rules/shards.hpp"
#include "troupe/algorithms/support/assert.hpp"
#include "troupe/models/networks/gradient_hooks.hpp"
#include "troupe/runtime/plan/derive.hpp"
#include "troupe/runtime/plan/devices.hpp"
#include "troupe/runtime/plan/network_costs.hpp"
#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/plan/refuse.hpp"
#include "troupe/runtime/topology/paths.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>
#include <utility>

namespace troupe {

namespace {

/// Returns whether the loop applies the update before it reaches the operation `name`.
bool comes_after_update(const std::vector<std::string>& loop, const std::vector<planned_exchange>& before,
                        const std::string& name) {
  for (const auto& word : loop) {
    if (word == name) return false;
    const auto applies = [&](const auto& exchange) { return exchange.name == word && exchange.carries.makes_step(); };
    if (word == "apply" || std::any_of(before.begin(), before.end(), applies)) return true;
  }
  return false;
}

/// Returns the layouts of what is exchanged separately: the buckets, the fragments, or the whole.
std::vector<models::flat_layout> pieces_of(const planned_exchange& exchange) {
  std::vector<models::flat_layout> pieces;
  if (const auto how = streaming_of(exchange.settings); how.fragments > 1)
    for (const auto& fragment : fragments_of(exchange.layout, how.fragments))
      pieces.push_back(layout_of_bucket(exchange.layout, fragment));
  for (const auto& bucket : exchange.buckets) pieces.push_back(layout_of_bucket(exchange.layout, bucket));
  if (pieces.empty()) pieces.push_back(exchange.layout);
  return pieces;
}

/// Returns a layout of so many values.
models::flat_layout layout_of(std::int64_t elements) {
  return {.parameters = {},
          .buffers = {},
          .parameter_end = elements,
          .total = elements,
          .parameter_count = elements,
          .cut_multiple = models::flat_layout{}.cut_multiple};
}

/// Returns the layouts that are averaged one after the other in place of a piece: the two rounds of PowerSGD, or the
/// piece itself.
std::vector<models::flat_layout> rounds_of(const planned_exchange& exchange, const models::flat_layout& piece) {
  if (exchange.codec.rank == 0) return {piece};
  const auto rounds = low_rank::rounds_of(piece, exchange.codec.rank);
  std::vector<models::flat_layout> layouts{layout_of(rounds.lefts)};
  if (rounds.rights > 0) layouts.push_back(layout_of(rounds.rights));
  return layouts;
}

/// Returns a layout with as many values as are averaged in place of a piece.
models::flat_layout averaged_in(const planned_exchange& exchange, const models::flat_layout& piece) {
  if (exchange.codec.rank == 0) return piece;
  std::int64_t elements = 0;
  for (const auto& round : rounds_of(exchange, piece)) elements += round.parameter_end;
  return layout_of(elements);
}

/// Returns how many bytes are sent in an exchange among members with these settings.
std::uint64_t bytes_of(const planned_exchange& exchange, const models::flat_layout& piece,
                       const setting_values& settings) {
  std::uint64_t bytes = 0;
  for (const auto& edge : exchange.kind->edges(static_cast<std::uint32_t>(exchange.members.size()), piece, settings))
    bytes += edge.bytes;
  return bytes;
}

/// Removes the candidates that send another number of bytes than `unplaced`, a choice that does not depend on where the
/// members are. Metrics count bytes and must be the same under any placement.
void keep_bytes(const planned_exchange& exchange, const models::flat_layout& piece, const choice& unplaced,
                choice& chosen) {
  if (chosen.candidates.empty() || chosen.candidates.front().value == unplaced.candidates.front().value) return;
  const auto bytes = bytes_of(exchange, piece, unplaced.settings);
  std::erase_if(chosen.candidates, [&](const auto& candidate) {
    auto settings = chosen.settings;
    settings[chosen.key] = candidate.value;
    return bytes_of(exchange, piece, settings) != bytes;
  });
  chosen.settings[chosen.key] = chosen.candidates.front().value;
}

/// Sets exchange_traffic::choices and assumed_links.
void choose(const planned_wiring& so_far, const planned_exchange& exchange,
            const std::vector<models::flat_layout>& pieces, exchange_traffic& traffic) {
  const auto& kind = *exchange.kind;
  if (!kind.choose) return;
  auto network = assume_network(so_far, exchange);
  const auto several = so_far.nodes.size() > 1;
  const auto unplaced = several ? assume_network(so_far, exchange, false) : assumed_network{};
  const surroundings around{.members = static_cast<std::uint32_t>(exchange.members.size()),
                            .how = exchange.codec.rank > 0 ? encoding::float32 : exchange.codec.how,
                            .ratio = exchange.codec.ratio,
                            .chunk_elements = chunk_elements_of(so_far),
                            .costs = &network.costs};
  auto in_one_process = around;
  in_one_process.chunk_elements = 0;
  in_one_process.costs = &unplaced.costs;
  // All fragments take the route of the whole.
  const auto whole = exchange.buckets.empty() ? std::vector{exchange.layout} : pieces;
  for (const auto& each : whole) {
    const auto piece = averaged_in(exchange, each);
    auto chosen = kind.choose(around, piece, exchange.settings_by_index);
    if (several) keep_bytes(exchange, piece, kind.choose(in_one_process, piece, exchange.settings_by_index), chosen);
    traffic.choices.push_back(std::move(chosen));
  }
  if (!traffic.choices.front().candidates.empty()) traffic.assumed_links = std::move(network.links);
}

/// Returns whether messages within a group are encoded as well.
bool encodes_in_groups(const planned_exchange& exchange) {
  return encodes_each_value(exchange.codec.how) && exchange.nature.consensus_rate == 0;
}

/// Returns the bytes of what an edge between members holds, as it travels in each exchange once encoding has begun.
std::uint64_t encoded_bytes(const planned_exchange& exchange, const models::flat_layout& layout,
                            const planned_edge& edge) {
  const auto& codec = codec_of(exchange.codec.how);
  const auto nature = codec.nature();
  const auto answers_stay = nature.block == 0 && !nature.same_places;
  if (nature.takes_rank || (edge.holds == edge_holds::server_answers && nature.block != 1) ||
      (edge.holds == edge_holds::answers && answers_stay))
    return edge.bytes;
  const auto elements = static_cast<std::int64_t>(edge.elements);
  const auto n = exchange.members.size();
  if (nature.same_places && edge.to < n) {  // about as many of each part
    const auto whole =
        codec.bytes(layout.parameter_end, {.used = layout.parameter_count, .ratio = exchange.codec.ratio});
    const auto share = static_cast<double>(elements) / static_cast<double>(layout.parameter_end);
    const auto values = std::llround(share * static_cast<double>(whole) / sizeof(float));
    return sizeof(float) * std::max(static_cast<std::uint64_t>(values), edge.messages);
  }
  const auto& pieces = exchange.codec.pieces;
  const auto where = pieces.empty() || edge.to < n ? range{0, elements} : pieces.at(edge.to - n);
  const encoding_task task{.used = parameters_in(layout, where), .ratio = exchange.codec.ratio};
  return static_cast<std::uint64_t>(codec.bytes(elements, task));
}

/// Returns the traffic of one bucket, or of the whole tensor, by index.
std::vector<planned_edge> edges_by_index(const planned_exchange& exchange, const models::flat_layout& layout,
                                         const setting_values& settings) {
  std::vector<planned_edge> edges;
  for (const auto& round : rounds_of(exchange, layout))
    for (const auto& edge : exchange.kind->edges(static_cast<std::uint32_t>(exchange.members.size()), round, settings))
      edges.push_back(edge);
  for (auto& edge : edges) {
    edge.elements = edge.bytes / sizeof(float);
    edge.bytes = encoded_bytes(exchange, layout, edge);
  }
  if (!exchange.has_groups()) return edges;
  planned_edge whole{.messages = 1, .elements = static_cast<std::uint64_t>(layout.parameter_end)};
  whole.bytes = encodes_in_groups(exchange)
                    ? static_cast<std::uint64_t>(codec_of(exchange.codec.how).max_bytes(layout.parameter_end))
                    : whole.elements * sizeof(float);
  return group_edges(exchange.groups(), edges, whole);
}

/// Returns the traffic between workers and servers, by id.
std::vector<planned_edge> edges_of(const planned_exchange& exchange, const std::vector<models::flat_layout>& pieces,
                                   const std::vector<choice>& choices) {
  const auto ids = exchange.ids();
  std::map<std::pair<std::uint32_t, std::uint32_t>, planned_edge> sums;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto& settings =
        choices.empty() ? exchange.settings_by_index : choices[std::min(i, choices.size() - 1)].settings;
    for (const auto& edge : edges_by_index(exchange, pieces[i], settings)) {
      const auto from = ids.at(edge.from), to = ids.at(edge.to);
      auto& sum = sums.try_emplace({from, to}, planned_edge{from, to, 0, 0}).first->second;
      sum.messages += edge.messages;
      sum.bytes += edge.bytes;
      sum.elements += edge.elements;
      sum.used = edge.used;
    }
  }
  std::vector<planned_edge> edges;
  for (const auto& [ends, edge] : sums) edges.push_back(edge);
  return edges;
}

/// Returns exchange_traffic::peers for these edges between ids.
std::vector<std::vector<std::uint32_t>> peers_of(const std::vector<planned_edge>& edges,
                                                 const std::vector<std::uint32_t>& ids) {
  std::unordered_map<std::uint32_t, std::uint32_t> index_of;
  for (std::uint32_t i = 0; i < ids.size(); ++i) index_of.emplace(ids[i], i);
  std::vector<std::vector<std::uint32_t>> peers(ids.size());
  for (const auto& edge : edges) {
    const auto from = index_of.at(edge.from), to = index_of.at(edge.to);
    peers[from].push_back(to);
    peers[to].push_back(from);
  }
  for (auto& row : peers) {
    std::sort(row.begin(), row.end());
    row.erase(std::unique(row.begin(), row.end()), row.end());
  }
  return peers;
}

/// Returns the buckets in which a gradient is sent, in the order in which backward computes gradients; empty if it is
/// sent whole.
std::vector<range> planned_buckets(const planned_model& so_far, const planned_exchange& exchange) {
  if (!sends_buckets(exchange.settings)) return {};
  const auto net = models::make_network(*so_far.model, so_far.shape, so_far.file.run.seed);
  const auto& facts = so_far.facts;
  const auto order = models::gradient_order(*net, so_far.shape, so_far.loss, facts.kind, facts.sequences);
  return buckets_of(exchange.settings, exchange.layout, order);
}

/// Returns how the messages of an exchange are encoded, of which everything else is planned.
encoding_options codec_of(const planned_model& so_far, const planned_exchange& exchange,
                          const topology::exchange_settings& given) {
  const auto how = encoding_named(given.encoding);
  const auto nature = codec_of(how).nature();
  encoding_options options{.how = how,
                           .same_for_all = exchange.nature.same_for_all || streaming_of(exchange.settings).is_used(),
                           .feedback = exchange.nature.consensus_rate == 0 && given.feedback.value_or(nature.feedback),
                           .ratio = given.ratio.value_or(1),
                           .momentum_correction = given.momentum_correction};
  if (nature.takes_rank) options.rank = given.rank.value_or(1);
  if (given.encode_after) options.after = steps_between(*given.encode_after, so_far.steps_per_epoch);
  if (given.ratio_warm_up) options.ratio_warm_up = steps_between(*given.ratio_warm_up, so_far.steps_per_epoch);
  if (exchange.nature.servers > 1) options.pieces = rules::parameter_shards(exchange.layout, exchange.nature.servers);
  return options;
}

/// Returns planned_exchange::wrappers. With groups, the inner codec encodes the mean that a group contributes, and the
/// outer one what is sent within a group, unless that is float32.
std::vector<wrapper> wrappers_of(const planned_exchange& exchange) {
  std::vector<wrapper> wrappers;
  const auto encode = [&](const std::string& state_name) {
    if (exchange.codec.how == encoding::float32) return;
    auto options = exchange.codec;
    options.state_name = state_name;
    wrappers.emplace_back(
        [options, rate = exchange.nature.consensus_rate](const member_options& own, const member_maker& make_inner) {
          if (options.rank > 0) return make_power_sgd_member(own, options, make_inner);
          return rate > 0 ? make_choco_member(own, options, rate, make_inner)
                          : make_encoded_member(own, options, make_inner);
        });
  };
  if (exchange.has_groups()) {
    encode("codec_between_groups");
    wrappers.emplace_back([groups = exchange.groups()](const member_options& own, const member_maker& make_inner) {
      return make_group_member({.groups = groups, .own = own, .make_inner = make_inner});
    });
  }
  if (!exchange.has_groups() || encodes_in_groups(exchange)) encode("codec");
  if (!exchange.buckets.empty()) wrappers.emplace_back(make_bucketed_member);
  const auto rule = outer_of(exchange.settings);
  const bool is_encoded = exchange.codec.how != encoding::float32;
  if (exchange.carries.sends == slot::parameters && exchange.nature.averages &&
      (is_encoded || rule.rule != outer_rule::none))
    wrappers.emplace_back([rule, is_encoded](const member_options& own, const member_maker& make_inner) {
      return make_outer_member(own, rule, is_encoded, make_inner);
    });
  if (const auto how = streaming_of(exchange.settings); how.is_used())
    wrappers.emplace_back([how, whole = exchange.due](const member_options& own, const member_maker& make_inner) {
      return make_streaming_member(own, how, whole, make_inner);
    });
  return wrappers;
}

/// Throws input_error if fragments cannot be averaged in this way.
void check_streaming(const topology::topology& file, const planned_exchange& exchange, const streaming& how,
                     std::uint64_t steps) {
  const auto path = topology::table_path("exchange", exchange.place) + ".";
  const auto every = std::to_string(exchange.due.every);
  if (how.delay >= exchange.due.every)
    refuse(file, path + "delay",
           "a fragment must be merged before it is sent again, every " + every + " steps; use a delay below that");
  if (how.fragments > exchange.due.every)
    refuse(file, path + "fragments",
           "there are more fragments than steps, " + every + ", in which each is sent once; use at most that many");
  if (steps / exchange.due.every > most_listed / (2 * how.fragments))
    refuse(file, path + "fragments",
           "a run of " + std::to_string(steps) + " steps would have more than " + std::to_string(most_listed) +
               " of them; use fewer fragments or a longer interval");
  const auto parameters = exchange.layout.parameters.size();
  if (how.fragments > parameters)
    refuse(file, path + "fragments",
           "a fragment has at least one parameter, of which this model has " + std::to_string(parameters) +
               "; use at most that many");
  if (exchange.due.lead == 0)
    refuse(file, path + "fragments",
           "fragments, delay and mix need the exchange after \"apply\"; move \"" + exchange.name +
               "\" behind it in workers.loop, or remove them");
}

/// Returns the id of the first server of the exchange that follows these.
std::uint32_t next_server(const planned_work& so_far, const std::vector<planned_exchange>& before) {
  return before.empty() ? so_far.workers : before.back().first_server + before.back().nature.servers;
}

/// Name of the exchange of synchronised norms.
constexpr const char* name_of_norms = "batch_norm";

}  // namespace

planned_exchange plan_exchange(const planned_model& so_far, const std::vector<planned_exchange>& before,
                               std::uint32_t place) {
  const auto& file = so_far.file;
  const auto& given = file.exchanges[place];
  const auto* kind = find_exchange(given.kind);
  TROUPE_ASSERT(kind != nullptr, "the kind of an exchange is one that is registered");
  topology::check_sends(file, place, refusal_in(file));
  topology::check_exchange(file, place, refusal_in(file));
  planned_exchange exchange{.place = place, .name = given.name, .kind = kind, .carries = *topology::carriage_of(given)};
  exchange.members = topology::members_of(file, place);
  const auto names = exchange.names();
  exchange.settings = settled(*kind, exchange.carries.sends, static_cast<std::uint32_t>(names.size()), given.options);
  exchange.settings_by_index = kind->by_index ? kind->by_index(names, exchange.settings) : exchange.settings;
  exchange.nature = nature_of(*kind, exchange.settings_by_index);
  if (exchange.nature.answers) exchange.carries.answers = *exchange.nature.answers;
  if (!exchange.nature.in_loop && names.size() == 1) exchange.nature.deterministic = true;  // no other worker writes it
  exchange.first_server = next_server(so_far, before);
  exchange.due = make_cadence(steps_between(given.every, so_far.steps_per_epoch),
                              comes_after_update(file.workers.loop, before, given.name), exchange.nature.due_from_start,
                              given.from ? steps_between(*given.from, so_far.steps_per_epoch) : 0,
                              given.until ? steps_between(*given.until, so_far.steps_per_epoch) : cadence::never);
  if (exchange.due.last < exchange.due.first)
    refuse(
        file, topology::table_path("exchange", place) + ".until",
        "the exchange would never take place, because it is first due after its last step; increase until, or reduce "
        "from or every");
  if (outer_of(exchange.settings).rule != outer_rule::none && exchange.due.lead == 0)
    refuse(file, topology::table_path("exchange", place) + ".outer",
           "an outer optimizer needs the exchange after \"apply\"; move \"" + given.name +
               "\" behind it in workers.loop, or remove outer");
  exchange.layout = mixes_buffers(exchange.settings) ? models::with_buffers(so_far.layout) : so_far.layout;
  exchange.codec = codec_of(so_far, exchange, given);
  exchange.layout.cut_multiple = std::max(exchange.layout.cut_multiple, codec_of(exchange.codec.how).nature().block);
  exchange.buckets = planned_buckets(so_far, exchange);
  if (kind->make_common)
    exchange.common = kind->make_common(static_cast<std::uint32_t>(names.size()), exchange.settings_by_index);
  if (const auto near = so_far.cores.find(given.name); near != so_far.cores.end()) exchange.cores = near->second;
  exchange.wrappers = wrappers_of(exchange);
  if (const auto how = streaming_of(exchange.settings); how.is_used()) {
    check_streaming(file, exchange, how, so_far.steps);
    exchange.due = how.due(exchange.due, so_far.steps);
  }
  return exchange;
}

planned_exchange plan_norms(const planned_exchanges& so_far, const std::vector<std::int64_t>& channels) {
  const auto& file = so_far.file;
  const std::string key = "model.sync_batch_norm", given = key + " = true";
  if (!so_far.file.model.script.empty())
    refuse(file, key,
           given +
               " is not supported for a script, which computes its batch norms itself; use "
               "model.exported, or remove the key");
  if (channels.empty()) refuse(file, key, given + ", but " + so_far.model->name + " has no batch norm; remove the key");
  if (so_far.workers > 1 && !(so_far.replicas_agree() && so_far.deterministic()))
    refuse(
        file, key,
        given +
            " requires every worker to run forward and backward in lockstep: each exchange must send gradients, have "
            "all workers as members, run in every step, and be of a synchronous kind such as all_reduce; or "
            "remove the key");
  for (const auto& exchange : so_far.exchanges)
    if (exchange.name == name_of_norms)
      refuse(file, "exchange." + exchange.name,
             "the exchange name \"" + exchange.name + "\" is reserved for batch norms when " + given +
                 "; choose another name");
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < so_far.workers; ++rank) ranks.push_back(rank);
  if (const auto both = sharing_a_gpu(so_far, ranks))
    refuse(file, key,
           given + ": workers " + std::to_string(both->first) + " and " + std::to_string(both->second) + " share " +
               so_far.devices.at(both->first).str() +
               ", and LibTorch has only one backward thread per GPU in a process, so one worker would block it while "
               "waiting for the other; give each worker its own GPU, or remove the key");
  planned_exchange norms{.place = static_cast<std::uint32_t>(so_far.exchanges.size()),
                         .name = name_of_norms,
                         .kind = &norm_statistics_kind(),
                         .of_norms = true};
  norms.settings = norms.settings_by_index = {{"route", std::string{"auto"}}};
  for (std::uint32_t rank = 0; rank < so_far.workers; ++rank)
    norms.members.push_back({.name = "w" + std::to_string(rank), .ranks = {rank}});
  norms.nature = nature_of(*norms.kind, norms.settings);
  norms.first_server = next_server(so_far, so_far.exchanges);
  auto [layout, buckets] = norm_buckets_of(channels);
  norms.layout = std::move(layout);
  norms.buckets = std::move(buckets);
  norms.wrappers = wrappers_of(norms);
  return norms;
}

std::vector<exchange_traffic> plan_traffic(const planned_wiring& so_far) {
  std::vector<exchange_traffic> result;
  for (const auto& exchange : so_far.exchanges) {
    const auto pieces = pieces_of(exchange);
    auto& traffic = result.emplace_back();
    choose(so_far, exchange, pieces, traffic);
    traffic.edges = edges_of(exchange, pieces, traffic.choices);
    traffic.peers = peers_of(traffic.edges, exchange.ids());
    // Norms exchange statistics for each micro-batch of a full batch.
    const auto times = exchange.of_norms ? static_cast<std::uint64_t>(so_far.micro_batches) : 1;
    for (auto& edge : traffic.edges) {
      edge.messages *= times;
      edge.bytes *= times;
    }
  }
  return result;
}

}  // namespace troupe
