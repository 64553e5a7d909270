#include "troupe/runtime/node/node.hpp"

#include "troupe/actors/support/intra_op.hpp"
#include "troupe/data/loader.hpp"
#include "troupe/runtime/node/fingerprint.hpp"
#include "troupe/runtime/node/lanes.hpp"
#include "troupe/runtime/node/supervisor.hpp"
#include "troupe/runtime/plan/refuse.hpp"
#include "troupe/runtime/topology/canonical.hpp"
#include "troupe/runtime/topology/error.hpp"
#include "troupe/runtime/topology/value.hpp"
#include "troupe/runtime/transport/free_ports.hpp"

#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <openssl/rand.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

namespace troupe {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

/// How long the lanes may compute after a run was cut short, when nothing needs the result.
constexpr milliseconds time_to_compute{1000};

struct system_config : caf::actor_system_config {
  system_config(bool alone, milliseconds silence) {
    // Handlers are short and LibTorch has threads of its own: one shared queue without polling, and two threads, leave
    // the cores to the lanes.
    set("scheduler.policy", caf::atom("sharing"));
    set("scheduler.max-threads", 2u);
    set("logger.verbosity", caf::atom("quiet"));
    if (alone) return;
    load<caf::io::middleman>();
    add_message_types<caf::id_block::troupe>();
    set("middleman.workers", 1u);
    set("middleman.connection-timeout", caf::timespan{silence});
    set("middleman.heartbeat-interval", caf::timespan{std::clamp(silence / 8, milliseconds{20}, milliseconds{1000})});
  }
};

/// Dials the first node once. Returns its supervisor, or nothing where there is none yet. Throws input_error.
node_actor dial_first(caf::actor_system& system, caf::scoped_actor& self, const planned_node& first) {
  constexpr auto patience = 500ms;  // the listener may not be a node, and never answer
  node_actor found;
  bool foreign = false;
  self->request(system.middleman().actor_handle(), patience, caf::connect_atom_v, first.address.host,
                first.address.port)
      .receive(
          [&](const caf::node_id&, const caf::strong_actor_ptr& there, const std::set<std::string>& interface) {
            if (!there) return;
            foreign = !system.assignable(interface, system.message_types<node_actor>());
            if (!foreign) found = caf::actor_cast<node_actor>(there);
          },
          [](const caf::error&) {});
  if (foreign)
    throw input_error("node " + first.name + " at " + topology::print_endpoint(first.address) +
                      " runs a different version of Troupe; expected the same version on all nodes");
  return found;
}

/// Returns the first node's supervisor as soon as there is one, or nothing once `interrupted`.
node_actor reach_first(caf::actor_system& system, const planned_node& first, const join_wait& wait,
                       const node_options& options, const std::atomic<int>& interrupted) {
  using clock = std::chrono::steady_clock;
  constexpr auto between_tries = 50ms;
  const auto where = "node " + first.name + " at " + topology::print_endpoint(first.address);
  const auto begin = clock::now();
  auto next_report = begin + wait.first_report;
  caf::scoped_actor self{system};
  while (interrupted == 0) {
    if (auto found = dial_first(system, self, first)) return found;
    if (clock::now() - begin > wait.limit)
      throw std::runtime_error(where + " could not be reached within " + topology::print_duration(wait.limit) + " (" +
                               wait.set_by + "); start it within this time, or set a longer one");
    if (clock::now() >= next_report) {
      options.report("waiting for " + where);
      next_report += wait.interval;
    }
    std::this_thread::sleep_for(between_tries);
  }
  return {};
}

join_wait wait_of(const plan& plan, const node_options& options) {
  const auto& run = plan.file.run;
  join_wait wait{.limit = run.join_timeout};
  if (options.together) {
    if (run.timeout < wait.limit) wait = {.limit = run.timeout, .set_by = "run.timeout"};
    wait.first_report = wait.interval;
  }
  return wait;
}

introduction introduce(const plan& plan, const data::dataset_pair& data, const node_options& options) {
  return {.node = plan.nodes[options.node].name,
          .protocol = transport::protocol_version,
          .version = version(),
          .topology = topology::canonical(plan.file),
          .weights = digest_of(options.initial, plan.file.model.script),
          .data = digest_of(data),
          .fingerprint = fingerprint_of(plan),
          .continues = options.continues};
}

std::shared_ptr<transport::tensor_plane> make_plane(const plan& plan, const node_options& options) {
  const auto& self = plan.nodes[options.node];
  std::vector<std::int64_t> exchanged;
  std::vector<encoding> encodings;
  for (const auto& exchange : plan.exchanges) {
    exchanged.push_back(exchange.layout.parameter_end);
    encodings.push_back(exchange.how);
  }
  return std::make_shared<transport::tensor_plane>(
      transport::tensor_plane_options{.listen = self.listen,
                                      .limits = {.world_size = plan.workers,
                                                 .first_rank = self.first_rank,
                                                 .ranks = self.workers,
                                                 .servers = plan.servers(),
                                                 .has_servers = options.node == 0,
                                                 .exchanged = std::move(exchanged),
                                                 .encodings = std::move(encodings),
                                                 .total = plan.layout.total,
                                                 .keeps_copies = plan.keeps_copies(options.node)},
                                      .pool = options.pool,
                                      .timeout = plan.file.run.timeout});
}

void publish(caf::actor_system& system, const supervisor_actor& supervisor, const topology::endpoint& listen) {
  const auto published =
      system.middleman().publish(caf::actor_cast<node_actor>(supervisor), listen.port, listen.host.c_str(), true);
  if (published) return;
  caf::anon_send_exit(supervisor, caf::exit_reason::kill);
  throw input_error("cannot listen on " + topology::print_endpoint(listen) + " (" + system.render(published.error()) +
                    "); expected a free port");
}

/// One for each worker of this process, unless the file says how many; half of the cores are left to the workers.
std::size_t loader_threads_of(const plan& plan, std::uint32_t node) {
  if (const auto given = plan.file.data.threads) return static_cast<std::size_t>(*given);
  const std::size_t half = std::max(1u, std::thread::hardware_concurrency() / 2);
  return std::min(half, static_cast<std::size_t>(plan.nodes[node].workers));
}

/// Refuses a number of intra-op threads that this process cannot have: some kernels of oneDNN would wait forever for
/// the threads that are missing.
void check_threads(const plan& plan) {
  const auto wanted = plan.file.run.threads;
  const auto found = available_intra_op_threads(wanted);
  if (found < wanted)
    refuse(plan.file, "run.threads",
           "run.threads is " + std::to_string(wanted) + ", but this process can have only " + std::to_string(found) +
               "; remove OMP_THREAD_LIMIT and OMP_DYNAMIC from the environment, or set run.threads = " +
               std::to_string(found));
}

transport::session_id random_session() {
  transport::session_id made{};
  if (RAND_bytes(reinterpret_cast<unsigned char*>(made.data()), static_cast<int>(made.size())) != 1)
    throw std::runtime_error("cannot generate a random session id");
  return made;
}

}  // namespace

run_end run(const plan& plan, const data::dataset_pair& data, node_options options, signal_watch& signals) {
  const auto& self = plan.nodes.at(options.node);
  const auto alone = plan.nodes.size() == 1;
  const auto end = std::make_shared<run_end>();
  std::atomic<int> interrupted{0};
  const auto wait = wait_of(plan, options);
  const auto loading = std::make_shared<data::loader_threads>(loader_threads_of(plan, options.node));
  thread_lanes lanes;
  std::shared_ptr<transport::tensor_plane> plane;
  check_threads(plan);
  if (!alone) {
    plane = make_plane(plan, options);
    if (options.node == 0) transport::check_free(self.listen);
  }
  {
    system_config config{alone, plan.file.run.silence};
    caf::actor_system system{config};
    const signal_handler while_dialling{signals, [&](int signal) { interrupted = signal; }};
    node_actor first;
    if (options.node > 0) first = reach_first(system, plan.nodes.front(), wait, options, interrupted);
    if (interrupted == 0) {
      auto book = options.open_book ? options.open_book() : nullptr;
      caf::scoped_actor waiting{system};
      const auto supervisor =
          spawn_supervisor(system, {.run_plan = std::make_shared<const troupe::plan>(plan),
                                    .data = data,
                                    .lanes = &lanes,
                                    .launch = {.book = std::move(book),
                                               .initial = options.initial,
                                               .pool = options.pool,
                                               .restored = options.restored,
                                               .node = options.node,
                                               .loading = loading},
                                    .self = alone ? introduction{} : introduce(plan, data, options),
                                    .plane = std::move(plane),
                                    .session = options.node == 0 ? random_session() : transport::session_id{},
                                    .first = std::move(first),
                                    .wait = wait,
                                    .report = options.report,
                                    .keep_copy = options.keep_copy,
                                    .end = end});
      options.initial.reset();
      options.restored.reset();
      waiting->monitor(supervisor);
      caf::anon_send(supervisor, join_atom_v);  // before others can reach it: it must have its list of nodes by then
      if (!alone && options.node == 0) publish(system, supervisor, self.listen);
      const signal_handler while_running{
          signals, [&](int signal) { caf::anon_send(supervisor, halt_atom_v, std::int32_t{signal}); }};
      waiting->receive([&](const caf::down_msg& down) {
        if (down.reason && !end->failure) end->failure = "supervisor: " + describe(down.reason);
      });
    }
  }
  if (interrupted != 0) end->signal = interrupted;
  const auto timeout = plan.file.run.timeout;
  end->stuck = lanes.close(end->status() == 0 ? timeout : time_to_compute, timeout);
  return *end;
}

}  // namespace troupe
