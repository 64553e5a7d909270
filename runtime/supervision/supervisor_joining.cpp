// The phase `joining`: the other nodes introduce themselves to the first node, whose reception admits or refuses them.
#include "troupe/files/text.hpp"
#include "troupe/net/channels/endpoint.hpp"
#include "troupe/runtime/supervision/supervisor_state.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <caf/all.hpp>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>

namespace troupe::supervision {

namespace {

using std::chrono::milliseconds;

/// A running first node answers within this time. It is reported as missing only afterwards.
constexpr milliseconds time_to_reach{250};

/// Returns the nodes that have not joined, such as "node beta" or "nodes beta and gamma".
std::string missing_nodes(const supervisor_state& my) {
  std::vector<std::string> names;
  for (std::uint32_t node = 0; node < my.nodes.size(); ++node)
    if (!my.nodes[node].joined) names.push_back(my.name_of(node));
  return (names.size() == 1 ? "node " : "nodes ") + text::listed(names, "and");
}

/// Returns the name and the address of the first node, for messages.
std::string first_node(const supervisor_state& my) {
  return "node " + my.first_name() + " at " + print_endpoint(my.run_plan().nodes.front().address);
}

void begin_joining(supervisor_pointer self) {
  self->state.joining_since = self->clock().now();
  check_joining(self);
}

/// Returns the handles with which other processes open the memories.
std::vector<memory_handle> handles_of(const crew& ours) {
  std::vector<memory_handle> handles;
  for (const auto& memory : ours.memories) handles.push_back(memory ? memory->handle() : memory_handle{});
  return handles;
}

void open_run(supervisor_pointer self) {
  auto& my = self->state;
  const auto& plan = my.run_plan();
  my.nodes.resize(plan.nodes.size());
  my.nodes[0].joined = true;
  for (std::uint32_t rank = plan.nodes[0].workers; rank < plan.workers; ++rank)
    my.far_workers.emplace(rank_id{rank}, transport::spawn_worker_proxy(self->home_system(), my.options.links,
                                                                        plan.node_of(rank), rank_id{rank}));
  my.options.launch.far = far_actors{.port_of = proxies_of_ports(self), .send_copy = sender_of_copies(self)};
  const auto me = caf::actor_cast<supervisor_actor>(self);
  my.reception =
      spawn_reception(self->home_system(), {.run_plan = my.options.run_plan,
                                            .self = my.options.self,
                                            .links = my.options.links.control,
                                            .report = my.options.report,
                                            .admitted = [me](transport::visitor_id visitor, std::uint32_t node) {
                                              caf::anon_send(me, join_atom_v, visitor, node);
                                            }});
  launch_crew(self);
}

/// Returns whether this node waits for an answer of the first node, rather than for other nodes.
bool awaits_first(const supervisor_state& my) {
  return !my.is_first() && !my.welcomed;
}

std::string who_is_missing(const supervisor_state& my) {
  if (my.is_first()) return missing_nodes(my) + " to join";
  return my.welcomed ? "node " + my.first_name() + " to begin the run" : first_node(my);
}

/// Ends the run because the time limit for joining has passed.
void give_up_joining(supervisor_pointer self) {
  auto& my = self->state;
  const auto limit =
      "within " + topology::print_duration(my.options.wait.limit) + " (" + my.options.wait.set_by + "); start ";
  my.options.end->failure =
      my.is_first() ? missing_nodes(my) + " did not join " + limit + "every node within this time, or set a longer one"
                    : first_node(my) + " could not be reached " + limit + "it within this time, or set a longer one";
  end_run(self);
}

}  // namespace

void join_run(supervisor_pointer self) {
  auto& my = self->state;
  if (my.is_first()) open_run(self);
  my.options.links.control->open(control_listener_of(self));
  begin_joining(self);
}

void introduce(supervisor_pointer self) {
  self->state.tell_first(self->state.options.self);
}

void refuse_first(supervisor_pointer self) {
  auto& my = self->state;
  my.options.end->refusal =
      first_node(my) + " runs a different version of Troupe; expected the same version on all nodes";
  end_run(self);
}

void take_welcome(supervisor_pointer self, const control::welcome& answer) {
  auto& my = self->state;
  if (my.now != phase::joining || my.welcomed) return;
  if (answer.memories.size() != my.run_plan().exchanges.size())
    throw std::runtime_error("the first node runs a different topology");
  const auto direction = transport::spawn_direction_proxy(self->home_system(), my.options.links);
  my.options.launch.far = far_actors{.coordinator = direction,
                                     .recorder = direction,
                                     .results = direction,
                                     .memories = answer.memories,
                                     .port_of = proxies_of_ports(self)};
  my.welcomed = true;
  launch_crew(self);
  my.options.report("joined; node " + my.first_name() + " coordinates the run");
  my.joining_since = self->clock().now();
}

void admit_node(supervisor_pointer self, transport::visitor_id visitor, std::uint32_t node) {
  auto& my = self->state;
  auto& status = my.nodes.at(node);
  if (status.joined || my.now != phase::joining) {
    const auto reason =
        my.now == phase::ending ? "the run has ended" : "node " + my.name_of(node) + " has already joined";
    my.options.report("refused node " + my.name_of(node) + ": " + reason);
    return my.options.links.control->refuse(visitor, {reason});
  }
  if (!my.options.links.control->admit(visitor, node)) return;  // it has left
  status = {.joined = true};
  my.options.links.control->tell(node, control::welcome{handles_of(my.ours)});
  my.options.report("node " + my.name_of(node) + " has joined");
}

void check_joining(supervisor_pointer self) {
  auto& my = self->state;
  const auto& wait = my.options.wait;
  const auto waited = std::chrono::duration_cast<milliseconds>(self->clock().now() - my.joining_since);
  const auto limited = my.is_first() || awaits_first(my);
  if (limited && waited >= wait.limit) return give_up_joining(self);
  const auto first_report = my.is_first() ? wait.first_report
                            : my.welcomed ? wait.interval  // it has just reported "joined"
                                          : std::max(wait.first_report, time_to_reach);
  if (waited >= first_report) my.options.report("waiting for " + who_is_missing(my));
  const auto next = waited < first_report ? first_report - waited : wait.interval;
  self->delayed_send(self, limited ? std::min(next, wait.limit - waited) : next, tick_atom_v);
}

bool all_joined(const supervisor_state& my) {
  return std::all_of(my.nodes.begin(), my.nodes.end(), [](const auto& node) { return node.joined; });
}

}  // namespace troupe::supervision
