#include "troupe/actors/exchange/all_reduce.hpp"

#include "troupe/actors/exchange/all_reduce/routes.hpp"
#include "troupe/actors/exchange/buckets.hpp"

#include <map>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe {

namespace {

/// Up to so many elements (64 KiB) "auto" sends everything to everyone. Between processes a hop is a thread wake and a
/// turn of the network, some tens of microseconds; copying 64 KiB takes less, so one hop of everything beats two of
/// shards.
constexpr std::int64_t small_gradient = std::int64_t{16} << 10;

/// The number of members up to which "auto" sends everything to everyone, and up to which it uses shards. Beyond, the
/// quadratic number of messages costs more than the hops of a chain: 2n(n − 1) against 2(n − 1). A port that gathers
/// holds at most 16 · 64 KiB.
constexpr std::uint32_t most_gathering = 16, most_with_shards = 32;

/// Whether the GPUs' own library does it. A port made by hand may leave the setting out.
bool is_nccl(const setting_values& settings) {
  const auto found = settings.find("engine");
  return found != settings.end() && std::get<std::string>(found->second) == "nccl";
}

/// Whether a chain sends at most half as much between nodes as shards do. It folds the workers of a node before
/// anything leaves it, if their indices follow each other: 2P bytes for each place where the node changes. Shards send
/// P/n from every member to every other one, twice.
bool chain_spares_links(const membership& among) {
  if (among.nodes.empty()) return false;
  const auto n = among.world_size;
  std::uint64_t changes = 0, apart = 0;  // apart: ordered pairs of members on different nodes
  std::map<std::uint32_t, std::uint64_t> members_of;
  for (std::uint32_t i = 0; i < n; ++i) {
    changes += i > 0 && among.nodes[i] != among.nodes[i - 1] ? 1 : 0;
    members_of[among.nodes[i]] += 1;
  }
  for (const auto& [node, count] : members_of) apart += count * (n - count);
  return apart > 0 && 2 * changes * n <= apart;
}

/// Returns the name of the route that "auto" stands for. Its bits do not depend on the choice.
std::string automatic_route(const membership& among, std::int64_t total) {
  if (total <= small_gradient && among.world_size <= most_gathering) return "all_gather";
  const auto is_large = among.world_size > (total <= small_gradient ? most_gathering : most_with_shards);
  return is_large || chain_spares_links(among) ? "chain" : "direct";
}

/// Replaces the route "auto".
setting_values choose_route(const membership& among, const models::flat_layout& layout, setting_values settings) {
  auto& name = std::get<std::string>(settings.at("route"));
  if (name == "auto" && !is_nccl(settings)) name = automatic_route(among, layout.parameter_end);
  return settings;
}

all_reduce::route route_of(const setting_values& settings) {
  if (is_nccl(settings)) return all_reduce::ring();  // its route is its own affair; bytes are a ring's at least
  const auto& name = std::get<std::string>(settings.at("route"));
  if (name == "ring") return all_reduce::ring();
  if (name == "chain") return all_reduce::chain();
  if (name == "all_gather") return all_reduce::all_gather();
  return all_reduce::direct();
}

std::vector<planned_edge> all_reduce_edges(std::uint32_t world_size, const models::flat_layout& layout,
                                           const setting_values& settings) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, planned_edge> edges;
  const auto count = [&](std::uint32_t from, std::uint32_t to, std::int64_t elements) {
    auto& edge = edges.try_emplace({from, to}, planned_edge{from, to, 0, 0}).first->second;
    edge.messages += 1;
    edge.bytes += static_cast<std::uint64_t>(elements) * sizeof(float);
  };
  // A plan has chosen the route already; otherwise, all members are on one node.
  const auto chosen = choose_route({.world_size = world_size}, layout, settings);
  route_of(chosen).list_messages(world_size, layout.parameter_end, count);
  std::vector<planned_edge> result;
  for (const auto& [ends, edge] : edges) result.push_back(edge);
  return result;
}

exchange_nature nature(const setting_values& settings) {
  if (!is_nccl(settings)) return {};
  return {.host = hosting::device_library, .sums_by = "NCCL", .encoding_refusal = "engine = \"nccl\" sends float32"};
}

constexpr auto all_wait = "all workers wait for each other";
constexpr auto members = "tests/unit/actors/members_test.cpp", runs = "tests/simulation/simulation_test.cpp";

exchange_variant route(const std::string& name, const std::string& messages, const std::string& bytes,
                       const std::string& equals, const std::vector<std::string>& shown_by) {
  return {.when = "route = \"" + name + "\"",
          .messages = messages,
          .bytes = bytes,
          .synchronisation = all_wait,
          .staleness = "0",
          .equals = equals,
          .shown_by = shown_by};
}

}  // namespace

exchange_kind all_reduce_kind() {
  return {
      .name = "all_reduce",
      .explanation = "Every worker receives the mean of all contributions; there is no master.",
      .source =
          "direct: Rabenseifner 2004, reduce-scatter and all-gather; ring: Patarasuk and Yuan 2009, section 3; "
          "averaging of parameters: Zinkevich et al. 2010 (once, at the end), McMahan et al. 2017 (FedAvg, whose mean "
          "is "
          "weighted by samples, of which all workers have equally many here), Stich 2019 (local SGD), Algorithm 1",
      .carries = {{.sends = slot::gradient, .answers = slot::gradient},
                  {.sends = slot::parameters, .answers = slot::parameters, .behind_apply = true}},
      .settings = with_send_settings(
          {{.name = "route",
            .type = setting_type::choice,
            .default_text = "\"auto\"",
            .explanation = "How the sums are computed and sent. \"direct\" adds up one shard at each worker, in rank "
                           "order. \"chain\" passes the sum up the ranks and the mean back down, so that each node "
                           "adds up its own workers before anything leaves it. \"auto\" chooses: up to 16 workers "
                           "send a tensor of at most 16 Ki elements whole to each other, in one hop; more than 16 "
                           "workers (32 for larger tensors) form a chain, and so do fewer if that halves the bytes "
                           "between nodes; otherwise it is direct. These three give the same bits, unless messages are "
                           "encoded; then, \"auto\" is always direct. \"ring\" is the textbook algorithm, whose bits "
                           "differ.",
            .choices = {"auto", "direct", "chain", "ring"}},
           {.name = "engine",
            .type = setting_type::choice,
            .default_text = "\"troupe\"",
            .explanation = "What computes the sums. \"troupe\" works between any devices and processes and adds in an "
                           "order fixed by the topology, so that results are the same in every run. \"nccl\" works "
                           "between the GPUs of one process, with one worker on "
                           "each, and chooses the order of the sums itself; it requires route = \"auto\".",
            .choices = {"troupe", "nccl"}},
           buffers_setting()}),
      .make_member =
          [](const member_options& options) {
            if (is_nccl(options.settings)) throw std::logic_error("NCCL has no member; see device/collective_port.hpp");
            return route_of(choose_route(options.among, options.layout, options.settings)).make_member(options);
          },
      .edges = all_reduce_edges,
      .nature = nature,
      .check = [](const std::vector<std::string>&, const setting_values& settings) -> std::optional<complaint> {
        const auto& route = std::get<std::string>(settings.at("route"));
        if (!is_nccl(settings) || route == "auto") return std::nullopt;
        return complaint{"route", "route = \"" + route +
                                      "\" is a route of engine = \"troupe\", but NCCL chooses its own; use route = "
                                      "\"auto\", or engine = \"troupe\""};
      },
      .choose = choose_route,
      .facts =
          {.equation = "gradient: each worker gets ḡ = Σ bᵢgᵢ / Σ bᵢ and applies x ← step(x, ḡ). parameters: xᵢ ← Σ xⱼ "
                       "/ n after the step; with every = H this is model averaging, or local SGD: H local steps, then "
                       "the mean of all workers. Each worker keeps its own momentum",
           .picture = "w0 ⇄ w1\n"
                      " ⇅ ⤫ ⇅     direct: worker j adds up shard j of n\n"
                      "w2 ⇄ w3",
           .variants = {route("direct", "2n(n − 1)", "2(n − 1)P", "star, bit for bit", {members, runs}),
                        route("chain", "2(n − 1)", "2(n − 1)P", "star, bit for bit", {members, runs}),
                        route("ring", "2n(n − 1)", "2(n − 1)P", "star, to 1e-5, because it adds in another order",
                              {"tests/parity/steps.py", members}),
                        route("auto",
                              "n(n − 1) if n ≤ 16 and P ≤ 16 Ki elements; otherwise as \"direct\", or as \"chain\" for "
                              "many workers or nodes of several workers",
                              "n(n − 1)P if n ≤ 16 and P ≤ 16 Ki elements; otherwise 2(n − 1)P", "star, bit for bit",
                              {runs, members, "tests/cli/catalogue.py"}),
                        {.when = "engine = \"nccl\"",
                         .messages = "chosen by NCCL; counted as for \"ring\"",
                         .bytes = "2(n − 1)P",
                         .synchronisation = all_wait,
                         .staleness = "0",
                         .equals = "star, to rounding; not yet run on a GPU",
                         .shown_by = {"tests/unit/actors/collective_port_test.cpp"}},
                        {.when = "send = \"parameter\" or \"bucket\"",
                         .messages = "as its route, for each parameter or bucket",
                         .bytes = "as its route; \"auto\" chooses for each bucket",
                         .synchronisation = "all workers wait for each other, separately for each parameter or bucket",
                         .staleness = "0",
                         .equals =
                             "send = \"whole\", bit for bit, or to 1e-5 with route = \"ring\"; PyTorch's DDP, to 1e-4 "
                             "after 20 steps",
                         .shown_by = {"tests/simulation/simulation_test.cpp", "tests/parity/ddp.py"}},
                        {.when = "sends = \"parameters\"",
                         .messages = "as its route",
                         .bytes = "as its route",
                         .synchronisation = "all workers wait for each other in every exchange",
                         .staleness = "0",
                         .equals = "with every = 1, the exchange of gradients, to 1e-5, if the optimizer is "
                                   "linear in the gradient (SGD with or without momentum; not Adam, NovoGrad or "
                                   "clipping); with a longer interval, local SGD in PyTorch, to 1e-5",
                         .shown_by = {"tests/simulation/averaging_test.cpp", "tests/parity/wirings.py"}}}},
  };
}

}  // namespace troupe
