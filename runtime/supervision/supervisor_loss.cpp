// The loss of a node ends the run. First, every node is asked which of its ranks wait for ranks of the lost node, so
// that the message names them.
#include "troupe/runtime/supervision/supervisor_state.hpp"

#include <caf/all.hpp>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

namespace troupe::supervision {

namespace {

/// How long ports and nodes may take to answer which ranks wait for a lost node. A node asks its ports before it
/// answers.
constexpr std::chrono::milliseconds time_of_port{150}, time_of_node{800};

/// How often, and after how long, a port whose worker is still computing is asked again.
constexpr int times_to_ask_again = 3;
constexpr std::chrono::milliseconds time_to_ask_again{50};
static_assert(time_of_node > (times_to_ask_again + 1) * time_of_port + times_to_ask_again * time_to_ask_again);

/// The answers so far to the question which ranks wait for lost ranks.
struct inquiry {
  std::string waiting;
  std::size_t open{1};  ///< Missing answers, and one for the requests that are still being sent.

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

/// Asks a port which ranks wait for `lost`, and asks again if none does yet. Calls `answer` with the text, or with "".
template <class Answer>
void ask_port(supervisor_pointer self, const port_actor& port, const std::vector<rank_id>& lost, const Answer& answer,
              int again = times_to_ask_again) {
  const auto take = [=](const std::string& ranks) {
    if (!ranks.empty() || again == 0) return answer(ranks);
    const auto ask = [=] { ask_port(self, port, lost, answer, again - 1); };
    self->delayed_send(self, time_to_ask_again, done_atom_v, completion{std::make_shared<std::function<void()>>(ask)});
  };
  self->request(port, time_of_port, lost_atom_v, lost).then(take, [answer](const caf::error&) { answer(""); });
}

/// Asks a node which of its ranks wait for `lost`. Calls `next` with its answer, or with "" if none arrives in time.
void ask_node(supervisor_pointer self, std::uint32_t node, std::uint32_t lost, std::chrono::milliseconds limit,
              std::function<void(const std::string&)> next) {
  auto& my = self->state;
  my.asked[node] = std::move(next);
  my.options.links.control->tell(node, control::who_waits{lost});
  const auto give_up = [self, node] { take_waiting(self, node, ""); };
  self->delayed_send(self, limit, done_atom_v, completion{std::make_shared<std::function<void()>>(give_up)});
}

/// Asks our ports and, on the first node, all reachable nodes which ranks wait for `node`. Calls `next` with the
/// answers. Waits for each node in `suspects` until it answers or is lost itself.
template <class Next>
void ask_who_waits(supervisor_pointer self, std::uint32_t node, Next next, std::set<std::uint32_t> suspects = {}) {
  auto& my = self->state;
  my.diagnosing = true;
  auto asked = std::make_shared<inquiry>();
  auto answer = [asked, next](const std::string& ranks) {
    asked->add(ranks);
    if (--asked->open == 0) next(*asked);
  };
  for (const auto& of_exchange : my.ours.ports)
    for (const auto& [id, port] : of_exchange) {
      asked->open += 1;
      ask_port(self, port, ids_of(my.run_plan(), node), answer);
    }
  my.for_each_node([&](std::uint32_t other) {
    asked->open += 1;
    const auto until_lost = my.run_plan().file.run.silence + time_of_node;
    ask_node(self, other, node, suspects.contains(other) ? until_lost : time_of_node, answer);
  });
  answer("");
}

/// Ends the run because of a loss.
void end_with_loss(supervisor_pointer self, const std::string& lost, const std::string& waiting) {
  if (self->state.now == phase::ending) return;  // it was complete meanwhile
  self->state.options.end->failure = lost + (waiting.empty() ? "" : "; " + waiting);
  end_run(self);
}

std::string loss_of(const supervisor_state& my, std::uint32_t node, const std::string& how) {
  return "node " + my.name_of(node) + " is lost: " + how;
}

/// On the first node: notes that a node can no longer be reached, and stops waiting for its answer.
void note_gone(supervisor_pointer self, std::uint32_t node, const std::string& how) {
  self->state.nodes[node].gone = how;
  take_waiting(self, node, "");
}

}  // namespace

void forget_node(supervisor_state& my, std::uint32_t node) {
  if (!my.nodes[node].joined) return;
  my.options.report("node " + my.name_of(node) + " left before the run began");
  my.nodes[node] = {};
}

void lose_node(supervisor_pointer self, std::uint32_t node, const std::string& how) {
  auto& my = self->state;
  if (my.is_first() && my.now == phase::joining) return forget_node(my, node);
  if (my.is_first()) note_gone(self, node, how);
  if (my.now == phase::ending) return quit_if_done(self);
  // If the first node is lost while it asks about another one, no other node ends our part of the run.
  if (my.is_first() && my.diagnosing) return;
  ask_who_waits(self, node, [self, lost = loss_of(my, node, how)](const inquiry& asked) {
    end_with_loss(self, lost, asked.waiting);
  });
}

void lose_link(supervisor_pointer self, std::uint32_t other, const std::string& why) {
  const auto& my = self->state;
  if (my.now == phase::ending) return;
  if (my.is_first()) return lose_link_between(self, my.me(), other, why);
  my.tell_first(control::link_lost{other, why});
}

void lose_link_between(supervisor_pointer self, std::uint32_t node, std::uint32_t other, const std::string& why) {
  auto& my = self->state;
  if (my.now == phase::joining || my.now == phase::ending || my.diagnosing || node == other) return;
  const auto blame = [self, node, other, why](const inquiry& asked) {
    const auto& my = self->state;
    for (const auto either : {other, node})
      if (const auto& how = my.nodes[either].gone) return end_with_loss(self, loss_of(my, either, *how), asked.waiting);
    end_with_loss(self,
                  "the link between the nodes " + my.name_of(std::min(node, other)) + " and " +
                      my.name_of(std::max(node, other)) + " is lost; node " + my.name_of(node) + " reports: " + why,
                  asked.waiting);
  };
  // Either node may be gone although its loss has not been reported yet. The link is to blame only if both answer.
  ask_who_waits(self, other, blame, {node, other});
}

void report_waiting(supervisor_pointer self, std::uint32_t lost_node) {
  ask_who_waits(self, lost_node, [self, lost_node](const inquiry& asked) {
    self->state.tell_first(control::waiting{lost_node, asked.waiting});
  });
}

void take_waiting(supervisor_pointer self, std::uint32_t node, const std::string& ranks) {
  auto& asked = self->state.asked;
  const auto request = asked.find(node);
  if (request == asked.end()) return;
  const auto answer = std::move(request->second);
  asked.erase(request);
  answer(ranks);
}

}  // namespace troupe::supervision
