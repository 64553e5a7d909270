// The loss of a node ends the run. First, every node is asked which of its ranks wait for ranks of the lost node, so
// that the message names them.
#include "troupe/runtime/node/supervisor_state.hpp"

#include <caf/all.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

namespace troupe::supervision {

namespace {

/// How long ports and nodes may take to answer who waits for a lost node. A node asks its ports before it answers.
constexpr std::chrono::milliseconds time_of_port{150}, time_of_node{300};

/// The answers so far to the question who waits for lost ranks.
struct inquiry {
  std::string waiting;
  std::size_t open{1};  ///< Answers still to come, and one for the requests that are still being sent.

  void add(const std::string& answer) {
    if (!answer.empty()) waiting += (waiting.empty() ? "" : "; ") + answer;
  }
};

/// Returns the ids of the workers and servers of a node.
std::vector<rank_id> ids_of(const plan& plan, std::uint32_t node) {
  std::vector<rank_id> ids;
  for (std::uint32_t id = 0; id < plan.workers + plan.servers(); ++id)
    if (plan.node_of(id) == node) ids.push_back(rank_id{id});
  return ids;
}

/// Asks our ports and, on the first node, all nodes that can be reached who waits for `node`. Calls `next` with the
/// answers.
template <class Next>
void ask_who_waits(supervisor_pointer self, std::uint32_t node, Next next) {
  auto& my = self->state;
  my.diagnosing = true;
  auto asked = std::make_shared<inquiry>();
  auto close = [asked, next]() mutable {
    if (--asked->open == 0) next(*asked);
  };
  const auto ask = [&](const auto& whom, std::chrono::milliseconds limit, const auto& lost) {
    asked->open += 1;
    self->request(whom, limit, lost_atom_v, lost)
        .then([asked, close](const std::string& answer) mutable { asked->add(answer), close(); },
              [close](const caf::error&) mutable { close(); });
  };
  for (const auto& of_exchange : my.ours.ports)
    for (const auto& [id, port] : of_exchange) ask(port, time_of_port, ids_of(my.run_plan(), node));
  for (const auto& other : my.nodes)
    if (other.is_reachable()) ask(other.handle, time_of_node, node);
  close();
}

/// Ends the run because of what is lost.
void end_with_loss(supervisor_pointer self, const std::string& lost, const std::string& waiting) {
  if (self->state.now == phase::ending) return;  // meanwhile it was complete
  self->state.options.end->failure = lost + (waiting.empty() ? "" : "; " + waiting);
  end_run(self);
}

std::string loss_of(const supervisor_state& my, std::uint32_t node, const std::string& how) {
  return "node " + my.name_of(node) + " is lost: " + how;
}

/// Frees the place of a node that left while nodes were still joining, so that it may join again.
void forget_node(supervisor_state& my, std::uint32_t node) {
  my.options.report("node " + my.name_of(node) + " left before the run began");
  my.nodes[node] = {};
}

}  // namespace

void lose_node(supervisor_pointer self, std::uint32_t node, const std::string& how) {
  auto& my = self->state;
  // If the first node is lost while it asks about another one, nobody else ends our part of the run.
  const auto first_lost = node == 0 && !my.is_first();
  if (my.now == phase::ending || (my.diagnosing && !first_lost)) return;
  if (my.is_first() && my.now == phase::joining) return forget_node(my, node);
  ask_who_waits(self, node, [self, lost = loss_of(my, node, how)](const inquiry& asked) {
    end_with_loss(self, lost, asked.waiting);
  });
}

void lose_link(supervisor_pointer self, std::uint32_t node, std::uint32_t other, const std::string& why) {
  auto& my = self->state;
  if (my.now == phase::ending || my.diagnosing) return;
  ask_who_waits(self, other, [self, node, other, why](const inquiry& asked) {
    // A node that has ended is known to be gone by now: its control connection broke at the same time.
    const auto& my = self->state;
    if (my.nodes[other].gone) return end_with_loss(self, loss_of(my, other, unknown_loss), asked.waiting);
    if (my.nodes[node].gone) return end_with_loss(self, loss_of(my, node, unknown_loss), asked.waiting);
    end_with_loss(self,
                  "the link between the nodes " + my.name_of(std::min(node, other)) + " and " +
                      my.name_of(std::max(node, other)) + " is lost; node " + my.name_of(node) + " reports: " + why,
                  asked.waiting);
  });
}

caf::result<std::string> report_waiting(supervisor_pointer self, std::uint32_t lost_node) {
  if (lost_node >= self->state.run_plan().nodes.size()) return std::string{};
  auto promise = self->make_response_promise<std::string>();
  ask_who_waits(self, lost_node, [promise](const inquiry& asked) mutable { promise.deliver(asked.waiting); });
  return promise;
}

}  // namespace troupe::supervision
