#include "troupe/runtime/node/supervisor.hpp"

#include "troupe/runtime/node/fingerprint.hpp"
#include "troupe/runtime/topology/canonical.hpp"
#include "troupe/runtime/topology/value.hpp"
#include "troupe/runtime/transport/proxy.hpp"
#include "troupe/runtime/transport/state_frames.hpp"

#include <caf/all.hpp>
#include <openssl/rand.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <stdexcept>
#include <utility>

namespace troupe {

namespace {

/// How long the others may take to say who waits for a lost node, and to leave once a run is over.
constexpr std::chrono::milliseconds to_answer{300}, to_leave{1500};

/// gathering → linking → running → ending; a run of one node begins at `running`.
enum class phase : std::uint8_t { gathering, linking, running, ending };

/// What the first node knows of each, itself included.
struct guest {
  node_actor handle;
  bool joined{false}, ready{false}, gone{false};
  std::vector<directed_worker> workers{};
};

struct supervisor_state {
  static inline const char* name = "supervisor";
  supervisor_options options;
  phase now{phase::gathering};
  caf::actor_clock::time_point gathering_since{};
  crew ours;
  std::map<caf::actor_addr, std::string> alive;  ///< Of our crew.
  blame blamed;
  transport::session_id session{};
  std::vector<guest> guests;  ///< On the first node, by node.
  bool searching{false};      ///< A node is lost, and all are being asked who waits for it; the run is as good as over.

  ~supervisor_state() { dismiss(ours); }

  const plan& what() const { return *options.what; }
  std::uint32_t me() const { return options.launch.node; }
  bool is_first() const { return me() == 0; }
  bool is_alone() const { return what().nodes.size() == 1; }
};

using supervisor_pointer = supervisor_actor::stateful_pointer<supervisor_state>;

void leave_if_done(supervisor_pointer self) {
  auto& my = self->state;
  const auto others_gone =
      std::all_of(my.guests.begin(), my.guests.end(), [](const guest& one) { return !one.handle || one.gone; });
  if (my.now == phase::ending && my.alive.empty() && others_gone) self->quit();
}

/// Ends the run here, and on the first node everywhere. What is in `end` already, stays.
void over(supervisor_pointer self) {
  auto& my = self->state;
  if (my.now == phase::ending) return;
  my.now = phase::ending;
  auto& end = *my.options.end;
  if (!end.failure) end.failure = my.blamed.text;
  dismiss(my.ours);
  for (const auto& one : my.guests)
    if (one.handle && !one.gone)
      self->send(one.handle, end_atom_v, std::int32_t{end.status()}, end.failure.value_or(""));
  self->delayed_send(self, to_leave, tick_atom_v);
  leave_if_done(self);
}

void fail(supervisor_pointer self, std::string why) {
  auto& my = self->state;
  if (my.now == phase::ending) return;
  if (!my.is_first()) self->send(my.options.first, fail_atom_v, why);
  my.options.end->failure = std::move(why);
  // The first node decides; it will tell us so, unless it is the one that is lost.
  if (my.is_first()) over(self);
}

/// "node beta", "nodes beta and gamma": those that have not joined the first node.
std::string missing(const supervisor_state& my) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < my.guests.size(); ++i)
    if (!my.guests[i].joined) names.push_back(my.what().nodes[i].name);
  return (names.size() == 1 ? "node " : "nodes ") + topology::listed(names, "and");
}

/// Reports at intervals who is missing, until the time for joining is over.
void go_on_gathering(supervisor_pointer self) {
  auto& my = self->state;
  const auto& wait = my.options.wait;
  const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(self->clock().now() - my.gathering_since);
  if (my.is_first() && waited >= wait.limit)
    return fail(self, missing(my) + " did not join within " + topology::print_duration(wait.limit) + " (" +
                          wait.set_by + "); start every node within this time, or set a longer one");
  const auto first_word = my.is_first() ? wait.first_word : wait.between;  // the others have just reported "joined"
  if (waited >= first_word)
    my.options.say("waiting for " + (my.is_first() ? missing(my) + " to join"
                                                   : "node " + my.what().nodes.front().name + " to begin the run"));
  const auto next = waited < first_word ? first_word - waited : wait.between;
  self->delayed_send(self, my.is_first() ? std::min(next, wait.limit - waited) : next, tick_atom_v);
}

void gather(supervisor_pointer self) {
  self->state.gathering_since = self->clock().now();
  go_on_gathering(self);
}

// Who waits for whom. ----------------------------------------------------------------------------------------------

/// What is known so far of who waits for lost ranks.
struct inquiry {
  std::string found;
  std::size_t open{1};  ///< Answers to come, and one for the questions still being asked.

  void add(const std::string& text) {
    if (!text.empty()) found += (found.empty() ? "" : "; ") + text;
  }
};

/// The workers and servers of a node.
std::vector<rank_id> ids_of(const plan& plan, std::uint32_t node) {
  std::vector<rank_id> ids;
  for (std::uint32_t id = 0; id < plan.workers + plan.servers(); ++id)
    if (plan.node_of(id) == node) ids.push_back(rank_id{id});
  return ids;
}

/// Asks our ports, and `others`, and calls `next` with what they say.
template <class Next>
void ask_who_waits(supervisor_pointer self, std::uint32_t node, const std::vector<node_actor>& others, Next next) {
  auto asked = std::make_shared<inquiry>();
  auto close = [asked, next]() mutable {
    if (--asked->open == 0) next(asked->found);
  };
  const auto ask = [&](const auto& whom, const auto& lost) {
    asked->open += 1;
    self->request(whom, to_answer, lost_atom_v, lost)
        .then([asked, close](const std::string& text) mutable { asked->add(text), close(); },
              [close](const caf::error&) mutable { close(); });
  };
  for (const auto& of_exchange : self->state.ours.ports)
    for (const auto& [id, port] : of_exchange) ask(port, ids_of(self->state.what(), node));
  for (const auto& other : others) ask(other, node);
  close();
}

/// A node is lost, and with it the run.
void lose(supervisor_pointer self, std::uint32_t node, const std::string& how) {
  auto& my = self->state;
  // Where the first is lost while it asks about another, nobody but ourselves ends our part of the run.
  const auto first_lost = node == 0 && !my.is_first();
  if (my.now == phase::ending || (my.searching && !first_lost)) return;
  if (my.is_first() && my.now == phase::gathering) {
    my.options.say("node " + my.what().nodes[node].name + " left before the run began");
    my.guests[node] = {};
    return;
  }
  my.searching = true;
  std::vector<node_actor> others;
  for (std::size_t i = 0; i < my.guests.size(); ++i)
    if (my.guests[i].handle && !my.guests[i].gone && i != node) others.push_back(my.guests[i].handle);
  const auto text = "node " + my.what().nodes[node].name + " is lost: " + how;
  ask_who_waits(self, node, others, [self, text](const std::string& waiting) {
    self->state.options.end->failure = text + (waiting.empty() ? "" : "; " + waiting);
    over(self);
  });
}

// Taking part. -----------------------------------------------------------------------------------------------------

void launch_here(supervisor_pointer self) {
  auto& my = self->state;
  my.ours = launch(self->home_system(), my.what(), my.options.data, *my.options.lanes, my.options.launch);
  my.options.launch.initial.reset();
  for (const auto& [name, member] : my.ours.members) {
    my.alive.emplace(member.address(), name);
    self->monitor(member);
  }
}

std::function<peer_port(std::uint32_t)> far_ports(supervisor_pointer self) {
  return [self](std::uint32_t rank) {
    const auto& my = self->state;
    return transport::spawn_port_proxy(self->home_system(), my.options.plane, my.what().node_of(rank), rank);
  };
}

std::function<bool(rank_id, const state_dict&)> restore_far(supervisor_pointer self) {
  return [what = self->state.options.what, plane = self->state.options.plane](rank_id rank, const state_dict& state) {
    const auto node = what->node_of(static_cast<std::uint32_t>(rank));
    if (node == 0) return false;
    for (const auto& piece : transport::cut(rank, 0, state)) plane->send(node, piece);
    return true;
  };
}

void begin_if_ready(supervisor_pointer self) {
  auto& my = self->state;
  std::vector<directed_worker> workers;
  for (const auto& one : my.guests) {
    if (!one.ready) return;
    workers.insert(workers.end(), one.workers.begin(), one.workers.end());
  }
  my.now = phase::running;
  begin(my.ours, workers);
}

/// Where a tensor that came over the wire belongs. Throws frame_error, which ends the connection.
void deliver(const crew& ours, std::uint32_t first_rank, transport::state_assembler& states, transport::frame&& arrived,
             std::shared_ptr<const void> receipt) {
  if (arrived.header.kind == transport::frame_kind::state) {
    auto whole = states.add(arrived.as_state_piece());
    if (!whole) return;
    if (ours.coordinator)
      return caf::anon_send(ours.coordinator, state_atom_v, whole->rank, whole->number, std::move(whole->state));
    const auto& worker = ours.workers.at(static_cast<std::uint32_t>(whole->rank) - first_rank);
    return caf::anon_send(worker, restore_atom_v, std::move(whole->state));
  }
  if (arrived.header.kind == transport::frame_kind::snapshot) {
    if (ours.coordinator) caf::anon_send(ours.coordinator, result_atom_v, arrived.as_snapshot());
    return;
  }
  const auto& ports = ours.ports[arrived.header.which.place];
  const auto to = ports.find(arrived.header.to);
  if (to == ports.end())
    throw transport::frame_error("received a frame for a rank that is not a member of the exchange");
  auto piece = arrived.as_part();
  piece.receipt = std::move(receipt);
  caf::anon_send(to->second, part_atom_v, std::move(piece));
}

void link(supervisor_pointer self) {
  auto& my = self->state;
  my.now = phase::linking;
  std::vector<topology::endpoint> addresses;
  for (const auto& node : my.what().nodes) addresses.push_back(node.address);
  const auto handle = caf::actor_cast<supervisor_actor>(self);
  my.options.plane->link(
      my.session, my.me(), addresses,
      {.linked = [handle] { caf::anon_send(handle, linked_atom_v); },
       .lost = [handle](std::uint32_t node, const std::string& why) { caf::anon_send(handle, lost_atom_v, node, why); },
       .arrived =
           [ours = my.ours, first_rank = my.what().nodes[my.me()].first_rank,
            states = std::make_shared<transport::state_assembler>()](transport::frame&& arrived,
                                                                     std::shared_ptr<const void> receipt) {
             deliver(ours, first_rank, *states, std::move(arrived), std::move(receipt));
           }});
}

void take_part(supervisor_pointer self) {
  auto& my = self->state;
  if (my.is_alone()) {
    launch_here(self);
    my.now = phase::running;
    begin(my.ours, my.ours.workers);
    return;
  }
  if (my.is_first()) {
    if (RAND_bytes(reinterpret_cast<unsigned char*>(my.session.data()), static_cast<int>(my.session.size())) != 1)
      throw std::runtime_error("cannot generate a random session id");
    my.guests.resize(my.what().nodes.size());
    my.guests[0].joined = true;
    my.options.launch.far = far_actors{.port_of = far_ports(self), .restore = restore_far(self)};
    launch_here(self);
    return gather(self);
  }
  self->monitor(my.options.first);
  self->request(my.options.first, my.what().file.run.timeout, join_atom_v, my.options.self)
      .then(
          [self](const welcome& answer) {
            auto& my = self->state;
            if (answer.session.size() != my.session.size())
              throw std::runtime_error("the first node sent no session id");
            if (answer.memories.size() != my.what().exchanges.size())
              throw std::runtime_error("the first node runs a different topology");
            std::memcpy(my.session.data(), answer.session.data(), my.session.size());
            my.options.launch.far =
                far_actors{.coordinator = caf::actor_cast<milestone_sink>(answer.coordinator),
                           .recorder = caf::actor_cast<progress_sink>(answer.recorder),
                           .results = transport::spawn_coordinator_proxy(self->home_system(), my.options.plane, 0),
                           .memories = answer.memories,
                           .port_of = far_ports(self)};
            launch_here(self);
            my.options.say("joined; node " + my.what().nodes.front().name + " coordinates the run");
            gather(self);
          },
          [self](const caf::error& why) {
            auto& end = *self->state.options.end;
            if (is(why, errc::mismatch))
              end.refusal = describe(why);
            else
              end.failure = "node " + self->state.what().nodes.front().name + " did not answer: " + describe(why);
            over(self);
          });
}

// The first node's door. -------------------------------------------------------------------------------------------

/// Returns why a node may not join, or nothing.
std::string objection(const supervisor_state& my, const introduction& who) {
  const auto& nodes = my.what().nodes;
  const auto& self = my.options.self;
  const auto& host = nodes.front().name;
  if (who.protocol != self.protocol || who.version != self.version)
    return "the versions of Troupe differ: " + self.version + " (protocol " + std::to_string(self.protocol) +
           ") on node " + host + ", " + topology::printable(who.version) + " (protocol " +
           std::to_string(who.protocol) + ") here";
  if (who.topology != self.topology)
    return "the topology file differs from that of node " + host + ": " +
           topology::differences(who.topology, self.topology);
  const auto found =
      std::find_if(nodes.begin() + 1, nodes.end(), [&](const auto& node) { return node.name == who.node; });
  if (found == nodes.end()) return "the run expects no other node with this name";
  if (my.now != phase::gathering || my.guests[static_cast<std::size_t>(found - nodes.begin())].joined)
    return "node " + found->name + " has already joined";
  if (who.data != self.data) return "the samples of " + my.what().data->name + " differ from those of node " + host;
  if (who.weights != self.weights)
    return (my.what().file.model.script.empty() ? "the initial weights (model.init) differ from those of node "
                                                : "the module (model.script) or the initial weights (model.init) "
                                                  "differ from those of node ") +
           host;
  return {};
}

/// Of the first node's guests; the others have none.
bool all_joined(const supervisor_state& my) {
  return std::all_of(my.guests.begin(), my.guests.end(), [](const guest& one) { return one.joined; });
}

/// Where other processes find the memories.
std::vector<memory_handle> handles_of(const crew& ours) {
  std::vector<memory_handle> handles;
  for (const auto& memory : ours.memories) handles.push_back(memory ? memory->handle() : memory_handle{});
  return handles;
}

caf::result<welcome> let_in(supervisor_pointer self, const introduction& who) {
  auto& my = self->state;
  if (!my.is_first()) return make_error(errc::mismatch, "this is not the first node of the file");
  if (const auto reason = objection(my, who); !reason.empty()) {
    my.options.say("refused node " + topology::printable(who.node) + ": " + reason);
    return make_error(errc::mismatch, reason);
  }
  const auto& nodes = my.what().nodes;
  const auto index = static_cast<std::size_t>(
      std::find_if(nodes.begin(), nodes.end(), [&](const auto& node) { return node.name == who.node; }) -
      nodes.begin());
  my.guests[index] = {.handle = caf::actor_cast<node_actor>(self->current_sender()), .joined = true};
  self->monitor(my.guests[index].handle);
  my.options.say("node " + who.node + " has joined");
  if (const auto difference = differing(my.options.self.fingerprint, who.fingerprint); !difference.empty())
    my.options.say("node " + who.node + " may compute different bits (" + difference +
                   "); identical weights in every run are not guaranteed");
  if (all_joined(my)) self->send(self, wire_atom_v);  // after the welcome
  return welcome{.session = {reinterpret_cast<const char*>(my.session.data()), my.session.size()},
                 .coordinator = caf::actor_cast<caf::strong_actor_ptr>(my.ours.coordinator),
                 .recorder = caf::actor_cast<caf::strong_actor_ptr>(my.ours.recorder),
                 .memories = handles_of(my.ours)};
}

/// Returns which node the message under way came from, if it is one of ours.
guest* sender(supervisor_pointer self) {
  for (auto& one : self->state.guests)
    if (one.handle && one.handle.address() == caf::actor_cast<caf::actor_addr>(self->current_sender())) return &one;
  return nullptr;
}

void hear_of_end(supervisor_pointer self, const caf::down_msg& down) {
  auto& my = self->state;
  if (const auto found = my.alive.find(down.source); found != my.alive.end()) {
    const auto name = found->second;
    my.alive.erase(found);
    const auto failed = down.reason && down.reason != caf::exit_reason::kill;
    if (my.now == phase::ending) {
      // Who failed by itself may be heard of after those that lost it.
      auto& failure = my.options.end->failure;
      if (failed && failure && failure == my.blamed.text) {
        my.blamed.hear(name, down.reason);
        failure = my.blamed.text;
      }
      return leave_if_done(self);
    }
    if (my.searching) return;
    if (failed) my.blamed.hear(name, down.reason);
    // The coordinator ends when all is done; anybody else ends before it only by failing. Either way all go.
    if (my.is_first()) return over(self);
    return fail(self, "node " + my.what().nodes[my.me()].name + ", " + my.blamed.text.value_or(name + " has ended"));
  }
  const auto how = "it was killed, disconnected or unresponsive";
  if (my.options.first && down.source == my.options.first.address()) return lose(self, 0, how);
  for (std::uint32_t node = 0; node < my.guests.size(); ++node) {
    auto& one = my.guests[node];
    if (!one.handle || down.source != one.handle.address()) continue;
    one.gone = true;
    lose(self, node, how);
    leave_if_done(self);
  }
}

supervisor_actor::behavior_type supervisor(supervisor_pointer self, supervisor_options options) {
  report_exceptions(self);
  self->state.options = std::move(options);
  self->set_down_handler([self](const caf::down_msg& down) { hear_of_end(self, down); });
  return {
      [self](join_atom, const introduction& who) { return let_in(self, who); },
      [self](wire_atom) {
        // Since the last one joined, another may have left again.
        if (self->state.now != phase::gathering || !all_joined(self->state)) return;
        for (const auto& one : self->state.guests)
          if (one.handle) self->send(one.handle, wire_atom_v);
        link(self);
      },
      [self](ready_atom, const std::vector<caf::actor>& workers) {
        auto* one = sender(self);
        if (!one || one->ready) return;
        const auto& node = self->state.what().nodes[static_cast<std::size_t>(one - self->state.guests.data())];
        if (workers.size() != node.workers)
          return fail(self, "node " + node.name + " has " + std::to_string(workers.size()) + " workers, but " +
                                std::to_string(node.workers) + " are planned");
        one->ready = true;
        for (const auto& worker : workers) one->workers.push_back(caf::actor_cast<directed_worker>(worker));
        begin_if_ready(self);
      },
      [self](fail_atom, const std::string& why) {
        if (sender(self) && !self->state.searching) fail(self, why);
      },
      [self](lost_atom, std::uint32_t node, const std::string& why) {
        auto& my = self->state;
        if (my.is_first())
          lose(self, node, "its tensor connection failed: " + why);
        else if (my.now != phase::ending && node != 0)
          self->send(my.options.first, lost_atom_v, node, why);
      },
      [self](lost_atom, std::uint32_t node) -> caf::result<std::string> {
        if (node >= self->state.what().nodes.size()) return std::string{};
        auto promise = self->make_response_promise<std::string>();
        self->state.searching = true;
        ask_who_waits(self, node, {}, [promise](const std::string& waiting) mutable { promise.deliver(waiting); });
        return promise;
      },
      [self](halt_atom, std::int32_t signal) {
        auto& my = self->state;
        if (my.now == phase::ending) return;
        my.options.end->signal = signal;
        if (!my.is_first() && my.now != phase::gathering)
          self->send(my.options.first, halt_atom_v, signal);
        else if (my.is_first() && my.now == phase::running)
          self->send(my.ours.coordinator, halt_atom_v);
        else
          over(self);
      },
      [self](end_atom, std::int32_t status, const std::string& why) {
        auto& end = *self->state.options.end;
        if (!why.empty()) end.failure = why;
        if (status > 128) end.signal = status - 128;
        over(self);
      },
      [self](join_atom) { take_part(self); },
      [self](linked_atom) {
        auto& my = self->state;
        if (!my.is_first()) {
          my.now = phase::running;
          std::vector<caf::actor> workers;
          for (const auto& worker : my.ours.workers) workers.push_back(caf::actor_cast<caf::actor>(worker));
          return self->send(my.options.first, ready_atom_v, std::move(workers));
        }
        my.guests[0].ready = true;
        my.guests[0].workers = my.ours.workers;
        begin_if_ready(self);
      },
      [self](tick_atom) {
        if (self->state.now == phase::ending) return self->quit();
        if (self->state.now == phase::gathering) go_on_gathering(self);
      },
  };
}

}  // namespace

supervisor_actor spawn_supervisor(caf::actor_system& system, supervisor_options options) {
  return system.spawn(supervisor, std::move(options));
}

}  // namespace troupe
