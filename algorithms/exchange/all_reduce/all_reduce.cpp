#include "troupe/algorithms/exchange/all_reduce/all_reduce.hpp"

#include "troupe/algorithms/exchange/all_reduce/automatic_route.hpp"
#include "troupe/algorithms/exchange/all_reduce/routes.hpp"
#include "troupe/algorithms/exchange/around/buckets.hpp"
#include "troupe/algorithms/exchange/around/outer.hpp"
#include "troupe/algorithms/exchange/around/streaming.hpp"

#include <map>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe {

namespace {

/// Returns whether the GPUs' own library computes the sums. The setting may be missing in a port made by hand.
bool is_nccl(const setting_values& settings) {
  const auto found = settings.find("engine");
  return found != settings.end() && std::get<std::string>(found->second) == "nccl";
}

/// Replaces route = "auto" by a route.
choice choose_route(const surroundings& around, const models::flat_layout& layout, setting_values settings) {
  auto& name = std::get<std::string>(settings.at("route"));
  if (name != "auto" || is_nccl(settings)) return {.settings = std::move(settings)};
  auto routes = all_reduce::automatic_routes(around, layout.parameter_end);
  name = routes.front().value;
  return {.settings = std::move(settings), .key = "route", .candidates = std::move(routes)};
}

all_reduce::route route_of(const setting_values& settings) {
  if (is_nccl(settings)) return all_reduce::ring();  // NCCL chooses its route; it sends at least the bytes of a ring
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
  // In a plan, the route has already been chosen. Otherwise, all members are in one process.
  const auto chosen = choose_route({.members = world_size}, layout, settings);
  route_of(chosen.settings).list_messages(world_size, layout, count);
  std::vector<planned_edge> result;
  for (const auto& [ends, edge] : edges) result.push_back(edge);
  return result;
}

exchange_nature all_reduce_nature(const setting_values& settings) {
  if (!is_nccl(settings)) {
    const auto found = settings.find("route");
    const auto route = found == settings.end() ? "auto" : std::get<std::string>(found->second);
    const auto passes_sums = route == "chain" || route == "ring";
    return {.same_for_all = !streaming_of(settings).is_used(),
            .averages = true,
            .sent = passes_sums         ? sends_as::sums
                    : route == "direct" ? sends_as::shards
                                        : sends_as::whole};
  }
  return {
      .carried_by = carrier::device_library, .sums_by = "NCCL", .encoding_refusal = "engine = \"nccl\" sends float32"};
}

}  // namespace

exchange_kind all_reduce_kind() {
  return {
      .name = "all_reduce",
      .explanation = "Every worker receives the mean of all contributions; there is no master.",
      .source =
          "direct: Rabenseifner 2004, reduce-scatter and all-gather; ring: Patarasuk and Yuan 2009, section 3; "
          "averaging of parameters: Zinkevich et al. 2010 (once, at the end), McMahan et al. 2017 (FedAvg, whose mean "
          "is weighted by samples, of which all workers have equally many here), Stich 2019 (local SGD), Algorithm 1; "
          "outer optimizers: Hsu et al. 2019 (momentum), Wang et al. 2020 (SlowMo), Reddi et al. 2021 (Adam), "
          "Douillard "
          "et al. 2023 (DiLoCo, Nesterov momentum), Douillard et al. 2025 (fragments, delay and mix: streaming DiLoCo)",
      .carries = {{.sends = slot::gradient, .answers = slot::gradient},
                  {.sends = slot::parameters, .answers = slot::parameters, .behind_apply = true}},
      .settings = with_streaming_settings(with_outer_settings(with_send_settings(
          {{.name = "route",
            .type = setting_type::choice,
            .default_text = "\"auto\"",
            .explanation = "How the sums are computed and sent. \"direct\" adds up one shard at each worker, in rank "
                           "order. \"chain\" passes the sum up the ranks and the mean back down, so that each node "
                           "adds up its own workers before anything leaves it. \"all_gather\" sends everything to "
                           "everyone, in one hop. These three give the same bits, unless messages are encoded: then, "
                           "a chain rounds its partial sums, except those of \"random_k\" and \"powersgd\". \"auto\" "
                           "is the one of them (without the chain if "
                           "messages are encoded) that is predicted to take the least time, which `troupe check` "
                           "prints; for encodings that treat many values together, it depends on the number of "
                           "workers and parameters only. It computes with the [[link]] sections. Where none applies, "
                           "it assumes 18 GB/s of "
                           "memory in a process, 3 GB/s and 30 us between processes of a host, and 1 Gbit/s and "
                           "0.2 ms between hosts. Among more than 1,024 workers, it is a chain. \"ring\" is the "
                           "textbook algorithm, whose bits differ.",
            .choices = {"auto", "direct", "chain", "all_gather", "ring"}},
           {.name = "engine",
            .type = setting_type::choice,
            .default_text = "\"troupe\"",
            .explanation = "What computes the sums. \"troupe\" works between any devices and processes and adds in an "
                           "order fixed by the topology, so that results are the same in every run. \"nccl\" works "
                           "between the GPUs of one process, with one worker on "
                           "each, and chooses the order of the sums itself; it requires route = \"auto\".",
            .choices = {"troupe", "nccl"}},
           buffers_setting()}))),
      .make_member =
          [](const member_options& options) {
            if (is_nccl(options.settings)) throw std::logic_error("NCCL has no member; its ports are of another kind");
            const auto chosen = choose_route({.members = options.among.world_size}, options.layout, options.settings);
            return route_of(chosen.settings).make_member(options);
          },
      .edges = all_reduce_edges,
      .nature = all_reduce_nature,
      .derive =
          [](std::uint32_t, setting_values settings) {
            return without_idle_streaming(with_outer_defaults(std::move(settings)));
          },
      .check = [](const std::vector<std::string>&, const setting_values& settings) -> std::optional<complaint> {
        if (auto wrong = wrong_outer_setting(settings)) return wrong;
        if (is_nccl(settings) && outer_of(settings).rule != outer_rule::none)
          return complaint{"outer", "outer requires engine = \"troupe\"; set that, or remove outer"};
        if (is_nccl(settings) && streaming_of(settings).is_used())
          return complaint{"engine", "fragments, delay and mix require engine = \"troupe\"; set that, or remove them"};
        const auto& route = std::get<std::string>(settings.at("route"));
        if (!is_nccl(settings) || route == "auto") return std::nullopt;
        return complaint{"route", "route = \"" + route +
                                      "\" is a route of engine = \"troupe\", but NCCL chooses its own; use route = "
                                      "\"auto\", or engine = \"troupe\""};
      },
      .choose = choose_route,
  };
}

}  // namespace troupe
