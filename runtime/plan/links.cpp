#include "troupe/runtime/plan/links.hpp"

#include "troupe/files/text.hpp"
#include "troupe/runtime/plan/refuse.hpp"
#include "troupe/runtime/plan/stages.hpp"
#include "troupe/runtime/support/units.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace troupe {

namespace {

/// Returns the number in names such as "w12" and "s0", if it is below `count`.
std::optional<std::uint32_t> number_in(std::string_view name, char first, std::uint32_t count) {
  std::uint32_t number = 0;
  if (name.size() < 2 || name.front() != first || (name[1] == '0' && name.size() > 2)) return std::nullopt;
  const auto* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + 1, end, number);
  return error == std::errc{} && stop == end && number < count ? std::optional{number} : std::nullopt;
}

link_end end_of(const planned_exchanges& plan, const std::string& key, const std::string& name) {
  const auto at = key.ends_with(".at");
  if (at && name == "*") return {.everywhere = true};
  if (const auto rank = number_in(name, 'w', plan.workers)) return {.id = rank};
  if (const auto server = number_in(name, 's', plan.servers())) return {.id = plan.workers + *server};
  for (std::uint32_t node = 0; node < plan.nodes.size(); ++node)
    if (plan.nodes[node].name == name) return {.node = node};
  refuse(plan.file, key,
         key + " (" + (at ? "the place" : "the two ends") + " of " +
             (plan.file.links.size() == 1 ? "the [[link]]" : "a [[link]]; the first one is link.0") + ") names " +
             topology::to_toml(name) + "; expected a worker such as \"w0\"" +
             (plan.servers() > 0 ? ", a server such as \"s0\"" : "") +
             (plan.file.nodes.empty() ? "" : ", a node such as " + topology::to_toml(plan.nodes.front().name)) +
             (at ? " or \"*\"" : ""));
}

}  // namespace

std::vector<planned_link> plan_links(const planned_exchanges& plan) {
  std::vector<planned_link> links;
  for (const auto& given : plan.file.links) {
    const auto key = "link." + std::to_string(links.size());
    planned_link link{.given = given, .ends = {}};
    if (given.at) link.ends.push_back(end_of(plan, key + ".at", *given.at));
    for (const auto& name : given.between) link.ends.push_back(end_of(plan, key + ".between", name));
    if (given.between.size() == 2 && given.between[0] == given.between[1])
      refuse(
          plan.file, key + ".between",
          key + ".between names \"" + given.between[0] + "\" twice; expected two different workers, servers or nodes");
    links.push_back(std::move(link));
  }
  for (const auto& exchange : plan.exchanges)
    if (has_emulated(links) && exchange.nature.carried_by != carrier::ports)
      refuse(plan.file, "link.0",
             "[[link]] does not apply to " + exchange.name + ", whose workers " +
                 (exchange.nature.carried_by == carrier::shared_memory ? "share memory" : "use NCCL") +
                 "; use another kind of exchange, or remove the links");
  return links;
}

bool has_emulated(const std::vector<planned_link>& links) {
  return std::any_of(links.begin(), links.end(), [](const auto& link) { return !link.given.real; });
}

std::string describe(const planned_link& link) {
  const auto& given = link.given;
  std::vector<std::string> facts;
  if (given.bandwidth) facts.push_back(given.bandwidth->text);
  if (given.latency) facts.push_back("latency " + topology::print_delay(*given.latency));
  if (given.jitter) facts.push_back("jitter " + topology::print_delay(*given.jitter));
  if (given.loss) facts.push_back("loss " + human_number(*given.loss));
  const auto where = given.at ? (*given.at == "*" ? std::string("each interface") : *given.at)
                              : given.between.front() + " ↔ " + given.between.back();
  return where + ": " + text::joined(facts, ", ") + (given.real ? " (real: a run delays nothing)" : "");
}

}  // namespace troupe
