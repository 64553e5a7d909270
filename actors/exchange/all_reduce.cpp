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

/// Whether the GPUs' own library does it. A port made by hand may leave the setting out.
bool is_nccl(const setting_values& settings) {
  const auto found = settings.find("engine");
  return found != settings.end() && std::get<std::string>(found->second) == "nccl";
}

all_reduce::route route_of(const setting_values& settings, std::int64_t total) {
  if (is_nccl(settings)) return all_reduce::ring();  // its route is its own affair; bytes are a ring's at least
  const auto& name = std::get<std::string>(settings.at("route"));
  if (name == "ring") return all_reduce::ring();
  if (name == "chain") return all_reduce::chain();
  if (name == "auto" && total <= small_gradient) return all_reduce::all_gather();
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
  route_of(settings, layout.parameter_end).list_messages(world_size, layout.parameter_end, count);
  std::vector<planned_edge> result;
  for (const auto& [ends, edge] : edges) result.push_back(edge);
  return result;
}

}  // namespace

exchange_kind all_reduce_kind() {
  return {
      .name = "all_reduce",
      .explanation = "everybody ends with the mean of all, without a master",
      .source =
          "direct: Rabenseifner 2004, reduce-scatter and all-gather; ring: Patarasuk and Yuan 2009, section 3; of "
          "parameters: Zinkevich et al. 2010 (averaged once, at the end), McMahan et al. 2017 (FedAvg), Stich 2019 "
          "(local SGD), Algorithm 1",
      .carries = {{.sends = slot::gradient, .answers = slot::gradient},
                  {.sends = slot::parameters, .answers = slot::parameters, .behind_apply = true}},
      .settings = with_send_settings(
          {{.name = "route",
            .type = setting_type::choice,
            .default_text = "auto",
            .explanation =
                "how the sums travel: direct folds a shard at each worker, in rank order; auto is direct, but "
                "up to 16 Ki elements everyone sends everything to everyone and folds for himself, one hop "
                "instead of two; chain goes up the ranks and back down; these have the same bits; ring is the "
                "textbook one, with bits of its own",
            .choices = {"auto", "direct", "chain", "ring"}},
           {.name = "engine",
            .type = setting_type::choice,
            .default_text = "troupe",
            .explanation = "who adds up: troupe, between any devices and processes, with bits that the file fixes; or "
                           "nccl, on the GPUs of one process, a worker each, in an order of its own",
            .choices = {"troupe", "nccl"}},
           buffers_setting()}),
      .make_member =
          [](const port_options& options) {
            if (is_nccl(options.settings)) throw std::logic_error("NCCL has no member; see device/collective_port.hpp");
            return route_of(options.settings, options.layout.parameter_end).make_member(options);
          },
      .edges = all_reduce_edges,
      .nature = [](const setting_values& settings) { return exchange_nature{.on_devices = is_nccl(settings)}; },
      .check = [](const std::vector<std::string>&, const setting_values& settings) -> std::optional<complaint> {
        const auto& route = std::get<std::string>(settings.at("route"));
        if (!is_nccl(settings) || route == "auto") return std::nullopt;
        return complaint{"route", "route = \"" + route +
                                      "\" cannot be combined with engine = \"nccl\", which chooses its own "
                                      "algorithm; remove the key route"};
      },
      .facts =
          {.equation = "gradient: each gets ḡ = Σ bᵢgᵢ / Σ bᵢ, then x ← step(x, ḡ) at each. parameters: xᵢ ← Σ xⱼ "
                       "/ n behind the "
                       "step, which with every = H is model averaging, or local SGD: H steps of one's own, then "
                       "the mean of all; "
                       "momentum stays each worker's own",
           .picture = "w0 ⇄ w1\n"
                      " ⇅ ⤫ ⇅     direct: worker j folds shard j of n\n"
                      "w2 ⇄ w3",
           .messages = "direct, ring: 2n(n − 1); chain: 2(n − 1); auto up to 16 Ki elements: n(n − 1), else as direct",
           .bytes = "2(n − 1)P; auto up to 16 Ki elements: n(n − 1)P",
           .synchronisation = "all wait for all, each time",
           .staleness = "0",
           .equals =
               "gradient: star, bit for bit (ring: to float tolerance). parameters: with every = 1 the exchange of "
               "gradients, to float tolerance, with an optimizer that is linear in the gradient (SGD, momentum, "
               "Nesterov; not Adam, NovoGrad or clipping); with more, local SGD in PyTorch, likewise",
           .shown_by = "tests/unit/actors/members_test.cpp, tests/simulation/simulation_test.cpp, "
                       "tests/simulation/averaging_test.cpp, tests/parity/steps.py, tests/parity/wirings.py, "
                       "tests/cli/catalogue.py"},
  };
}

}  // namespace troupe
