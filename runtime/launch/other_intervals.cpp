#include "troupe/runtime/launch/other_intervals.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace troupe {

namespace {

/// Returns the step stamped on the next contribution to `exchange` of a worker that has completed `completed` steps.
std::uint64_t next_of(const planned_exchange& exchange, std::uint64_t completed) {
  return exchange.due.next_due(completed + exchange.due.lead);
}

/// Returns a copy in which `others` replace the entries of the same names.
state_dict replaced(const state_dict& from, const std::map<std::string, std::vector<std::uint64_t>>& others) {
  state_dict copy;
  for (const auto& [name, values] : from.entries())
    if (const auto other = others.find(name); other != others.end())
      copy.put_counts(name, other->second);
    else
      copy.put(name, values);
  return copy;
}

/// Sets the next step of the exchange at its ports and servers.
void set_next(const planned_exchange& exchange, run_state& state) {
  const auto completed = [&](std::uint32_t rank) {
    return state.actors.at(label_of_worker(rank).name).count("completed");
  };
  std::vector<std::uint64_t> next;
  for (const auto& member : exchange.members) {
    auto least = completed(member.ranks.front());
    for (const auto rank : member.ranks) least = std::min(least, completed(rank));
    next.push_back(next_of(exchange, least));
  }
  for (const auto rank : exchange.ranks()) {
    auto& worker = state.actors.at(label_of_worker(rank).name);
    const auto name = "port " + exchange.name + "/step";
    if (worker.has(name)) worker = replaced(worker, {{name, {next_of(exchange, completed(rank))}}});
  }
  for (std::uint32_t i = 0; i < exchange.nature.servers; ++i) {
    auto& server = state.actors.at(label_of_server(exchange.name, 0, i).name);
    std::map<std::string, std::vector<std::uint64_t>> others;
    if (server.has("step")) others["step"] = {*std::min_element(next.begin(), next.end())};
    if (server.has("member/next") && server.counts("member/next").size() == next.size()) others["member/next"] = next;
    if (server.has("member/round")) others["member/round"] = {*std::min_element(next.begin(), next.end())};
    server = replaced(server, others);
  }
}

}  // namespace

std::shared_ptr<const run_state> with_intervals_of(const plan& plan, std::shared_ptr<const run_state> state,
                                                   const std::vector<topology::changed_setting>& changed) {
  const auto has_changed = [&](const planned_exchange& exchange) {
    if (exchange.due.stamps) return !changed.empty();  // they depend on the rate and the length of the run
    return std::any_of(changed.begin(), changed.end(), [&](const auto& change) {
      return change.key == "exchange.every" || change.key == "exchange." + exchange.name + ".every";
    });
  };
  if (std::none_of(plan.exchanges.begin(), plan.exchanges.end(), has_changed)) return state;
  auto continued = std::make_shared<run_state>(*state);
  try {
    for (const auto& exchange : plan.exchanges)
      if (has_changed(exchange)) set_next(exchange, *continued);
  } catch (const std::out_of_range&) {
    throw state_error("the checkpoint lacks the state of a worker or server; it belongs to another topology");
  }
  return continued;
}

}  // namespace troupe
