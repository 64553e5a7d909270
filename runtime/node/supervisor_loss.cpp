// The loss of a node ends the run. First, every node is asked which of its ranks wait for ranks of the lost node, so
// that the message names them.
#include "troupe/runtime/node/supervisor_state.hpp"

#include <caf/all.hpp>

#include <chrono>
#include <utility>

namespace troupe::supervision {

namespace {

/// How long ports and nodes may take to answer who waits for a lost node.
constexpr std::chrono::milliseconds time_to_answer{300};

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

/// Asks our ports and the nodes `others` who waits for `node`, and calls `next` with their answers.
template <class Next>
void ask_who_waits(supervisor_pointer self, std::uint32_t node, const std::vector<node_actor>& others, Next next) {
  auto asked = std::make_shared<inquiry>();
  auto close = [asked, next]() mutable {
    if (--asked->open == 0) next(asked->waiting);
  };
  const auto ask = [&](const auto& whom, const auto& lost) {
    asked->open += 1;
    self->request(whom, time_to_answer, lost_atom_v, lost)
        .then([asked, close](const std::string& answer) mutable { asked->add(answer), close(); },
              [close](const caf::error&) mutable { close(); });
  };
  for (const auto& of_exchange : self->state.ours.ports)
    for (const auto& [id, port] : of_exchange) ask(port, ids_of(self->state.run_plan(), node));
  for (const auto& other : others) ask(other, node);
  close();
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
  my.diagnosing = true;
  std::vector<node_actor> others;
  for (std::uint32_t i = 0; i < my.nodes.size(); ++i)
    if (my.nodes[i].is_reachable() && i != node) others.push_back(my.nodes[i].handle);
  const auto lost = "node " + my.name_of(node) + " is lost: " + how;
  ask_who_waits(self, node, others, [self, lost](const std::string& waiting) {
    self->state.options.end->failure = lost + (waiting.empty() ? "" : "; " + waiting);
    end_run(self);
  });
}

caf::result<std::string> report_waiting(supervisor_pointer self, std::uint32_t lost_node) {
  if (lost_node >= self->state.run_plan().nodes.size()) return std::string{};
  auto promise = self->make_response_promise<std::string>();
  self->state.diagnosing = true;
  ask_who_waits(self, lost_node, {}, [promise](const std::string& waiting) mutable { promise.deliver(waiting); });
  return promise;
}

}  // namespace troupe::supervision
