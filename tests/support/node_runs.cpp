#include "tests/support/node_runs.hpp"

#include "tests/support/doctest.hpp"

#include "troupe/runtime/launch/launcher.hpp"
#include "troupe/runtime/simulation/simulation.hpp"

#include <algorithm>
#include <sstream>
#include <vector>

namespace troupe::tests {

namespace {

using kind = node_fault::kind;

std::string text_of(const node_fault& fault) {
  static const std::vector<std::string> names{"kill",          "freeze", "cut",      "reset_tensors",
                                              "reset_control", "slow",   "interrupt"};
  return names.at(static_cast<std::size_t>(fault.what)) + " before message " + std::to_string(fault.before) + " node " +
         std::to_string(fault.node) + " other " + std::to_string(fault.other) + " lasting " +
         std::to_string(fault.lasting.count()) + " us delay " + std::to_string(fault.delay.count()) + " us";
}

std::string text_of(const simulated_end& all) {
  std::ostringstream text;
  for (std::size_t i = 0; i < all.nodes.size(); ++i) {
    const auto& node = all.nodes[i];
    text << "\n  node " << i << ": ";
    if (node.end)
      text << "status " << node.end->status() << " after " << node.ended_at.count() << " us; "
           << node.end->failure.value_or("") << node.end->refusal.value_or("");
    else
      text << "no end";
  }
  return text.str();
}

bool is_deadly(const node_fault& fault) {
  return fault.what != kind::slow && !(fault.what == kind::freeze && fault.lasting.count() > 0);
}

/// Returns whether a fault separates a node from the first one, at least for some time.
bool separates(const node_fault& fault, std::uint32_t node) {
  if (fault.what == kind::freeze && fault.node == node) return true;
  const auto between = (fault.node == node && fault.other == 0) || (fault.node == 0 && fault.other == node);
  if (fault.what == kind::cut || fault.what == kind::reset_control) return between;
  const auto first_is_gone = fault.node == 0 && (fault.what == kind::kill || fault.what == kind::freeze);
  return first_is_gone && node != 0;
}

/// Returns whether a failure names the fault.
bool names(const plan& plan, const std::string& failure, const node_fault& fault) {
  const auto has = [&](const std::string& words) { return failure.find(words) != std::string::npos; };
  const auto& node = plan.nodes[fault.node].name;
  const auto& other = plan.nodes[fault.other].name;
  const auto is_missing = [&](const std::string& name) {
    return has(name) && (has("did not join") || has("could not be reached"));
  };
  if (fault.what == kind::interrupt) return is_missing(node);
  if (fault.what == kind::kill || fault.what == kind::freeze)
    return has("node " + node + " is lost") || is_missing(node) || (fault.node == 0 && is_missing(plan.nodes[0].name));
  const auto& low = plan.nodes[std::min(fault.node, fault.other)].name;
  const auto& high = plan.nodes[std::max(fault.node, fault.other)].name;
  const auto is_link = has("the link between the nodes " + low + " and " + high + " is lost");
  const auto is_control = fault.node == 0 || fault.other == 0;
  return is_link || (is_control && (has("node " + node + " is lost") || has("node " + other + " is lost") ||
                                    is_missing(node) || is_missing(other)));
}

}  // namespace

tiny_options over_three_nodes(tiny_options wiring) {
  wiring.nodes = {1, 1, wiring.workers - 2};
  return wiring;
}

node_runs::node_runs(const tiny_options& wiring) : plan_(tiny_plan(wiring)) {
  if (!plan_.deterministic()) return;
  auto alone = wiring;
  alone.nodes.clear();
  const auto plan = tiny_plan(alone);
  models::buffer_pool pool;
  auto journal = std::make_shared<remembered>();
  REQUIRE_FALSE(simulate(plan, tiny_data(), initial_weights(plan, pool), pool, journal, {}).failure);
  expected_ = journal->result;
}

node_run node_runs::run(const simulation_options& options) const {
  node_run made;
  models::buffer_pool pool;
  made.all = simulate_nodes(plan_, tiny_data(), initial_weights(plan_, pool), pool, made.journal, options);
  return made;
}

void node_runs::check(const simulation_options& options) const {
  std::string what = "seed " + std::to_string(options.seed);
  for (const auto& fault : options.faults) what += "; " + text_of(fault);
  const auto made = run(options);
  INFO(what << text_of(made.all));
  const auto& file = plan_.file.run;
  const auto& nodes = made.all.nodes;
  const auto deadly = std::any_of(options.faults.begin(), options.faults.end(), is_deadly);
  const auto is_missing = [](const auto& node) {
    const auto text = node.end ? node.end->failure.value_or("") : "";
    return text.find("did not join") != std::string::npos || text.find("could not be reached") != std::string::npos;
  };
  const auto waits_to_join = std::any_of(nodes.begin(), nodes.end(), is_missing);
  const auto limit = made.all.faulted_at + file.silence + 2 * file.timeout +
                     (waits_to_join ? std::chrono::microseconds{file.join_timeout} : std::chrono::microseconds{0});
  std::optional<int> status;
  for (std::uint32_t i = 0; i < nodes.size(); ++i) {
    if (!nodes[i].end) continue;
    CHECK(nodes[i].ended_at <= limit);  // END-1
    const auto& end = *nodes[i].end;
    const auto left = waits_to_join && end.signal != 0;  // before the run began, so another node may take its place
    const auto apart = left || std::any_of(options.faults.begin(), options.faults.end(),
                                           [i](const auto& fault) { return separates(fault, i); });
    if (!apart) {
      if (!status) status = end.status();
      CHECK(end.status() == *status);  // END-2
    }
    if (end.status() == 1 || end.status() == 2) CHECK(deadly);
    const auto slept = std::any_of(options.faults.begin(), options.faults.end(),
                                   [i](const auto& fault) { return fault.what == kind::freeze && fault.node == i; });
    if (end.failure && !slept)
      CHECK(std::any_of(options.faults.begin(), options.faults.end(),
                        [&](const auto& fault) { return names(plan_, *end.failure, fault); }));  // END-3
    if (end.refusal) CHECK(apart);
  }
  if (nodes[0].end && nodes[0].end->status() == 0) {
    REQUIRE(made.journal->result.defined());
    if (expected_.defined()) CHECK(made.journal->result.equal(expected_));  // END-4
  }
}

}  // namespace troupe::tests
