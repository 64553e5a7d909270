#include "troupe/runtime/node/node.hpp"

#include "troupe/algorithms/support/intra_op.hpp"
#include "troupe/data/sampling/loader.hpp"
#include "troupe/files/error.hpp"
#include "troupe/runtime/emulation/network.hpp"
#include "troupe/runtime/emulation/slowed_lanes.hpp"
#include "troupe/runtime/launch/channels_of_plan.hpp"
#include "troupe/runtime/launch/lanes.hpp"
#include "troupe/runtime/launch/links_of_plan.hpp"
#include "troupe/runtime/launch/patient_scheduler.hpp"
#include "troupe/runtime/launch/traced_lanes.hpp"
#include "troupe/runtime/plan/batches.hpp"
#include "troupe/runtime/plan/derive.hpp"
#include "troupe/runtime/plan/memory_needs.hpp"
#include "troupe/runtime/plan/refuse.hpp"
#include "troupe/runtime/supervision/fingerprint.hpp"
#include "troupe/runtime/supervision/supervisor.hpp"
#include "troupe/runtime/support/short_slices.hpp"
#include "troupe/runtime/support/units.hpp"
#include "troupe/runtime/tcp/tcp_links.hpp"
#include "troupe/runtime/topology/canonical.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <caf/all.hpp>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>

namespace troupe {

namespace {

using std::chrono::milliseconds;
using seat_pointer = std::shared_ptr<guests::seat>;

/// How long the lanes may compute after a run was cut short, when nothing needs the result.
constexpr milliseconds time_to_compute{1000};

/// Makes threads use short slices, so that messages are handled soon even while lanes occupy all cores.
class short_slices final : public caf::thread_hook {
 public:
  void init(caf::actor_system& /*system*/) override {}
  void thread_started() override { use_short_slices(); }
  void thread_terminates() override {}
};

struct system_config : caf::actor_system_config {
  system_config() {
    add_thread_hook<short_slices>();
    // Handlers are short and LibTorch has threads of its own: one shared queue without polling, and two threads, leave
    // the cores to the lanes.
    load<patient_scheduler>();
    set("scheduler.max-threads", 2u);
    set("logger.verbosity", caf::atom("quiet"));
  }
};

join_wait wait_of(const plan& plan, const node_options& options) {
  const auto& run = plan.file.run;
  join_wait wait{.limit = run.join_timeout};
  if (options.together) {
    if (run.timeout < wait.limit) wait = {.limit = run.timeout, .set_by = "run.timeout"};
    wait.first_report = wait.interval;
  }
  return wait;
}

control::introduction introduce(const plan& plan, const data::dataset_pair& data, const node_options& options) {
  return {.node = plan.nodes[options.node].name,
          .version = version(),
          .topology = topology::canonical(plan.file),
          .weights = digest_of(options.initial, plan.file.model.file()),
          .data = digest_of(data),
          .fingerprint = fingerprint_of(plan),
          .continues = options.continues};
}

transport::session_id random_session() {
  transport::session_id session{};
  if (RAND_bytes(reinterpret_cast<unsigned char*>(session.data()), static_cast<int>(session.size())) != 1)
    throw std::runtime_error("cannot generate a random session id");
  return session;
}

/// Returns the maximum size of a control message. All are small except the introduction of another node, which should
/// be similar to our own.
std::uint64_t largest_control(const control::introduction& own) {
  constexpr std::uint64_t ample = 1 << 20;
  return std::max(ample, 2 * own.topology.size());
}

/// The entrance for guests, which is opened after the links to which it belongs.
struct late_entrance {
  std::mutex mutex;
  std::shared_ptr<guests::entrance> opened;

  void open(std::shared_ptr<guests::entrance> now) {
    const std::lock_guard lock{mutex};
    opened = std::move(now);
  }
  void take(const std::shared_ptr<transport::guest_arrival>& guest) {
    const std::lock_guard lock{mutex};
    if (opened) opened->take(guest);
  }
};

/// The seats of a run, which are closed with it.
struct closed_seats {
  std::vector<seat_pointer> all;

  ~closed_seats() { close(1); }
  void close(int status) {
    for (const auto& seat : all)
      if (seat) seat->close(status);
  }
};

/// Returns a function through which guests steer the run of this coordinator.
guests::steering steering_of(const coordinator_actor& coordinator) {
  using kind = steering_order::kind;
  return [coordinator](const guests::steering_request& what, const std::string& guest,
                       std::function<void(const steered&)> answer) {
    steering_order order{.guest = guest};
    if (const auto* rate = std::get_if<set_learning_rate>(&what)) {
      order.what = kind::rate;
      order.step = rate->step;
      order.lr = rate->lr;
    } else {
      constexpr std::array kinds{kind::pause, kind::go_on, kind::checkpoint, kind::halt};
      order.what = kinds.at(what.index());
    }
    order.answer = std::make_shared<const std::function<void(const order_answer&)>>(
        [answer = std::move(answer)](const order_answer& how) { answer({.refusal = how.refusal, .step = how.step}); });
    caf::anon_send(coordinator, std::move(order));
  };
}

/// Returns what the links do with guests.
std::function<void(const std::shared_ptr<transport::guest_arrival>&)> taker_of(
    const node_options& options, const std::shared_ptr<late_entrance>& entrance) {
  if (!options.guests) return {};
  return [entrance](const auto& guest) { entrance->take(guest); };
}

transport::guest_door open_to_guests(const plan& plan, const node_options& options,
                                     const std::shared_ptr<late_entrance>& entrance) {
  return transport::open_to_guests({.listen = options.guests->listen,
                                    .addresses = {options.guests->listen},
                                    .channels = channels_of_guests(plan, options.guests->rights),
                                    .ranks = ranks_of_nodes(plan),
                                    .limits = {},
                                    .pool = {},
                                    .guests = taker_of(options, entrance)},
                                   options.report);
}

transport::links make_links(const plan& plan, const node_options& options, const control::introduction& own,
                            const std::shared_ptr<late_entrance>& entrance) {
  transport::tcp_options settings{
      .me = options.node,
      .listen = plan.nodes[options.node].listen,
      .addresses = {},
      .channels = channels_of(plan, options.node, options.guests ? options.guests->rights : guest_rights{}),
      .ranks = ranks_of_nodes(plan),
      .names = {},
      .control = plan.control_carrier() == "caf" ? transport::control_carrier::caf : transport::control_carrier::frames,
      .session = options.node == 0 ? random_session() : transport::session_id{},
      .limits = frame_limits_of(plan, options.node),
      .pool = options.pool,
      .timeout = plan.file.run.timeout,
      .silence = plan.file.run.silence,
      .guests = taker_of(options, entrance)};
  settings.limits.largest_control = largest_control(own);
  for (const auto& node : plan.nodes) {
    settings.addresses.push_back(node.address);
    settings.names.push_back(node.name);
  }
  return transport::make_tcp_links(std::move(settings));
}

/// Returns a function through which several actors can report, one at a time.
std::function<void(const std::string&)> one_at_a_time(std::function<void(const std::string&)> report) {
  return [report = std::move(report), mutex = std::make_shared<std::mutex>()](const std::string& line) {
    const std::lock_guard lock{*mutex};
    report(line);
  };
}

/// Refuses actors in other programs if no program can attach.
void check_actors(const plan& plan, const node_options& options) {
  if (options.node != 0 || options.guests) return;
  for (const auto& exchange : plan.exchanges)
    if (exchange.nature.is_elsewhere())
      refuse(plan.file, "exchange." + exchange.name + ".actor",
             "actor " + exchange.nature.actor + " of " + exchange.name +
                 " is in another program, which must attach to the run; start the run with --actors");
}

/// Refuses a number of intra-op threads that this process cannot have: some kernels of oneDNN would wait forever for
/// the threads that are missing.
void check_threads(const plan& plan) {
  const auto wanted = plan.file.run.threads;
  const auto available = available_intra_op_threads(wanted);
  if (available < wanted)
    refuse(plan.file, "run.threads",
           "run.threads is " + std::to_string(wanted) + ", but this process can have only " +
               std::to_string(available) +
               "; remove OMP_THREAD_LIMIT and OMP_DYNAMIC from the environment, or set run.threads = " +
               std::to_string(available));
}

}  // namespace

run_end run(const plan& plan, const data::dataset_pair& data, node_options options, signal_watch& signals) {
  const auto alone = plan.nodes.size() == 1;
  check_workers(plan, {options.node});
  check_actors(plan, options);
  if (!options.network)
    options.network = emulation::make_network(plan, plan.file.run.seed, emulation::realm::run, options.trace);
  const auto end = std::make_shared<run_end>();
  const auto loading = std::make_shared<data::loader_threads>(
      loader_threads_of(plan.file.data, plan.nodes[options.node].workers, std::thread::hardware_concurrency()));
  thread_lanes threads;
  options.report = one_at_a_time(std::move(options.report));
  threads.report_long_jobs(plan.file.run.timeout, options.report);
  traced_lanes traced{threads, options.trace};
  emulation::slowed_lanes lanes{options.trace ? static_cast<lane_factory&>(traced) : threads, plan};
  check_threads(plan);
  const auto own = alone ? control::introduction{} : introduce(plan, data, options);
  const auto entrance = std::make_shared<late_entrance>();
  auto links = alone ? transport::links{} : make_links(plan, options, own, entrance);
  auto door = alone && options.guests ? open_to_guests(plan, options, entrance) : transport::guest_door{};
  signals.on_signal({});  // from here on, there is something to save
  {
    system_config config;
    caf::actor_system system{config};
    auto journal = options.open_journal ? options.open_journal() : nullptr;
    auto deliveries = options.open_recording ? options.open_recording() : launch_deliveries{};
    closed_seats seats{options.node == 0 ? guests::seats_of(plan, options.pool) : std::vector<seat_pointer>{}};
    if (options.guests) {
      auto where = alone ? options.guests->listen : plan.nodes[options.node].address;
      if (alone) where.port = door.port;
      entrance->open(options.guests->open(where, seats.all));
    }
    caf::scoped_actor waiting{system};
    const auto supervisor = spawn_supervisor(system, {.run_plan = std::make_shared<const troupe::plan>(plan),
                                                      .data = data,
                                                      .lanes = &lanes,
                                                      .launch = {.journal = std::move(journal),
                                                                 .initial = options.initial,
                                                                 .pool = options.pool,
                                                                 .restored = options.restored,
                                                                 .node = options.node,
                                                                 .deliveries = std::move(deliveries),
                                                                 .links = options.network,
                                                                 .trace = options.trace,
                                                                 .loading = loading,
                                                                 .seats = seats.all},
                                                      .self = own,
                                                      .links = links,
                                                      .wait = wait_of(plan, options),
                                                      .report = options.report,
                                                      .began =
                                                          [entrance](const crew& ours) {
                                                            const std::lock_guard lock{entrance->mutex};
                                                            if (entrance->opened)
                                                              entrance->opened->connect(steering_of(ours.coordinator));
                                                          },
                                                      .keep_copy = options.keep_copy,
                                                      .end = end});
    options.initial.reset();
    options.restored.reset();
    options.open_recording = {};
    waiting->monitor(supervisor);
    const signal_handler while_running{
        signals, [&](int signal) { caf::anon_send(supervisor, halt_atom_v, std::int32_t{signal}); }};
    caf::anon_send(supervisor, join_atom_v);
    waiting->receive([&](const caf::down_msg& down) {
      if (down.reason && !end->failure) end->failure = "supervisor: " + describe(down.reason);
    });
    seats.close(end->status());
    if (options.guests) {
      options.guests->conclude();
      entrance->opened->close();  // before the thread of the links ends
    }
    links = {};
    door = {};
  }
  const auto timeout = plan.file.run.timeout;
  if (options.network) end->links = options.network->usage();
  end->stuck = threads.close(end->status() == 0 ? timeout : time_to_compute, timeout);
  return *end;
}

}  // namespace troupe
