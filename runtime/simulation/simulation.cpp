#include "troupe/runtime/simulation/simulation.hpp"

#include "troupe/algorithms/training/engine.hpp"
#include "troupe/data/random/random.hpp"
#include "troupe/runtime/emulation/network.hpp"
#include "troupe/runtime/launch/links_of_plan.hpp"
#include "troupe/runtime/launch/traced_lanes.hpp"
#include "troupe/runtime/plan/faults.hpp"
#include "troupe/runtime/plan/refuse.hpp"
#include "troupe/runtime/simulation/simulated_network.hpp"
#include "troupe/runtime/supervision/supervisor.hpp"
#include "troupe/runtime/support/activity.hpp"

#include <caf/all.hpp>
#include <caf/scheduler/test_coordinator.hpp>

#include <algorithm>
#include <csignal>
#include <functional>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

namespace troupe {

namespace {

using std::chrono::microseconds;
using time = std::chrono::nanoseconds;  ///< Virtual time since the simulation began.

using node_pair = std::pair<std::uint32_t, std::uint32_t>;

node_pair ends_of(const node_fault& fault) {
  return std::minmax(fault.node, fault.other);
}

/// Throws std::runtime_error if `now` is more than a hundred years: a clock of nanoseconds ends after 292 years.
void check_virtual_time(std::chrono::nanoseconds now) {
  if (now >= longest_delay)
    throw std::runtime_error(
        "the run would last longer than a hundred years of virtual time; see [simulate], [[link]] and "
        "workers.slowdown in the topology file");
}

/// An actor system whose actors run one event at a time, on request.
struct system_config : caf::actor_system_config {
  system_config() { set("scheduler.policy", caf::atom("testing")); }
};

/// A node: its actors, and its share of virtual time.
class simulated_node {
 public:
  simulated_node(std::uint64_t seed, const simulation_options& options)
      : lanes_(seed, options.lanes),
        traced_(lanes_, options.trace),
        traces_(options.trace && options.traces_real_time) {}

  ~simulated_node() {
    if (supervisor_) caf::anon_send_exit(supervisor_, caf::exit_reason::kill);
    supervisor_ = supervisor_actor{};
    while (scheduler().has_job()) scheduler().run_once();
  }

  void start(supervisor_options options) {
    options.lanes = traces_ ? static_cast<lane_factory*>(&traced_) : &lanes_;
    if (traces_) options.launch.trace = nullptr;
    options.end = end_;
    options.report = [this](const std::string& line) { reports_.push_back(line); };
    supervisor_ = spawn_supervisor(system_, std::move(options));
    caf::actor_cast<caf::abstract_actor*>(supervisor_)->attach_functor([this](const caf::error& why) {
      ended_ = true;
      if (why && !end_->failure) end_->failure = "supervisor: " + describe(why);
    });
    caf::anon_send(supervisor_, join_atom_v);
  }

  bool ended() const { return ended_; }
  const run_end& end() const { return *end_; }
  const std::vector<std::string>& reports() const { return reports_; }

  std::size_t jobs() { return scheduler().jobs.size(); }
  void run_job(std::size_t which) {
    auto& jobs = scheduler().jobs;
    std::swap(jobs.front(), jobs[which]);
    scheduler().run_once();
  }

  /// Returns the time of the next timeout of the node, or nothing if there is none.
  std::optional<time> next_due() {
    const auto& schedule = scheduler().clock().schedule();
    if (schedule.empty()) return std::nullopt;
    return schedule.begin()->first - origin_;
  }

  /// Advances the clock of the node.
  void reach(time now) {
    auto& clock = scheduler().clock();
    const auto behind = origin_ + now - clock.now();
    if (behind.count() >= 0) clock.advance_time(behind);  // 0: for what is due at once
  }

  void interrupt(int signal) { caf::anon_send(supervisor_, halt_atom_v, std::int32_t{signal}); }

 private:
  caf::scheduler::test_coordinator& scheduler() {
    return dynamic_cast<caf::scheduler::test_coordinator&>(system_.scheduler());
  }

  simulated_lanes lanes_;
  traced_lanes traced_;
  bool traces_;  ///< Whether jobs are traced in real time.
  system_config config_;
  caf::actor_system system_{config_};
  caf::actor_clock::time_point origin_ = scheduler().clock().now();
  supervisor_actor supervisor_;
  std::shared_ptr<run_end> end_ = std::make_shared<run_end>();
  std::vector<std::string> reports_;
  bool ended_{false};
};

/// All nodes, and the order of events.
class simulation {
 public:
  simulation(const plan& plan, const simulation_options& options)
      : plan_(plan),
        options_(options),
        random_(options.seed),
        network_(network_of(plan, options)),
        faults_(plan, options.faults) {
    const auto count = options.on_one_node ? 1 : plan.nodes.size();
    for (std::size_t i = 0; i < count; ++i) nodes_.push_back(std::make_unique<simulated_node>(random_.next(), options));
    killed_.resize(nodes_.size());
    frozen_until_.resize(nodes_.size());
    result_.nodes.resize(nodes_.size());
  }

  void start(const data::dataset_pair& data, const at::Tensor& initial, const models::buffer_pool& pool,
             const std::shared_ptr<journal>& journal) {
    const auto shared = std::make_shared<const plan>(plan_);
    const auto engines = std::make_shared<engine_pool>();
    const auto note_step = [this](std::uint32_t rank, std::uint64_t completed) { faults_.note_step(rank, completed); };
    for (std::uint32_t node = 0; node < nodes_.size(); ++node)
      nodes_[node]->start({.run_plan = shared,
                           .data = data,
                           .launch = {.journal = node == 0 ? journal : nullptr,
                                      .initial = initial,
                                      .pool = pool,
                                      .restored = node == 0 ? options_.restored : nullptr,
                                      .node = node,
                                      .open_device = options_.open_device,
                                      .computes = options_.computes,
                                      .deliveries = options_.deliveries,
                                      .links = options_.links,
                                      .trace = options_.trace,
                                      .engines = engines,
                                      .on_step = note_step},
                           .self = {.node = plan_.nodes[node].name},
                           .links = nodes_.size() > 1 ? network_.links_of(node) : transport::links{},
                           .wait = {.limit = plan_.file.run.join_timeout},
                           .report = {},
                           .began =
                               [this](const crew& first) {
                                 faults_.begin(now_);
                                 first_ = &first;
                                 if (options_.after_begin) options_.after_begin(first);
                               },
                           .end = {}});
  }

  simulated_end run() {
    const activity simulating{"an operation of a simulated worker or of the evaluator", plan_.file.run.timeout,
                              "run.timeout"};
    while (!over() && !stops()) {
      activity::goes_on();
      inject_faults();
      if (run_event())
        note_event();
      else if (!advance() && !goes_on_anyway())
        fail<simulation_stalled>("stalled");
      interrupt_if_asked();
      if (++turns_ > options_.most_events) fail<std::runtime_error>("did not end");
    }
    for (std::uint32_t node = 0; node < nodes_.size(); ++node) {
      result_.nodes[node].reports = nodes_[node]->reports();
      if (nodes_[node]->ended() && !killed_[node]) result_.nodes[node].end = nodes_[node]->end();
    }
    result_.messages = network_.delivered();
    for (const auto& fault : faults_.waiting()) result_.not_injected.insert(fault.planned);
    return std::move(result_);
  }

 private:
  static transport::simulated_network_options network_of(const plan& plan, const simulation_options& options) {
    transport::simulated_network_options network_options{.ranks = ranks_of_nodes(plan),
                                                         .limits = {},
                                                         .window = options.window,
                                                         .latency = options.latency,
                                                         .timeout = plan.file.run.timeout,
                                                         .silence = plan.file.run.silence,
                                                         .seed = options.seed};
    for (std::uint32_t node = 0; node < plan.nodes.size(); ++node)
      network_options.limits.push_back(frame_limits_of(plan, node));
    return network_options;
  }

  bool is_frozen(std::uint32_t node) const { return frozen_until_[node].has_value(); }
  bool is_live(std::uint32_t node) const { return !killed_[node] && !is_frozen(node); }

  bool over() const {
    for (std::uint32_t node = 0; node < nodes_.size(); ++node) {
      const auto stands_still = is_frozen(node) && *frozen_until_[node] == time::max();
      if (!killed_[node] && !stands_still && !nodes_[node]->ended()) return false;
    }
    return true;
  }

  bool has_first() const { return first_ && !nodes_.front()->ended() && !killed_.front(); }

  void note_event() {
    result_.events += 1;
    if (options_.after_event && has_first()) options_.after_event(*first_, result_.events);
  }

  bool goes_on_anyway() const { return options_.on_stall && has_first() && options_.on_stall(*first_); }

  bool stops() const { return options_.stop_after > 0 && result_.events >= options_.stop_after; }

  void interrupt_if_asked() {
    if (!options_.signal || signal_ != 0 || (signal_ = *options_.signal) == 0) return;
    nodes_.front()->interrupt(signal_);
  }

  void inject_faults() {
    for (const auto& fault : faults_.take_due(network_.delivered(), now_)) {
      result_.faulted_at = std::chrono::ceil<microseconds>(now_);
      inject(fault);
    }
    while (!later_.empty() && later_.begin()->first <= now_) {
      const auto end = std::move(later_.begin()->second);
      later_.erase(later_.begin());
      end();
    }
  }

  /// Calls `end` when the duration of a fault is over, unless the fault lasts to the end of the run.
  void end_later(const node_fault& fault, std::function<void()> end) {
    if (fault.lasting.count() > 0) later_.emplace(now_ + fault.lasting, std::move(end));
  }

  /// Cuts the link between two nodes until the last fault that cuts it has ended.
  void cut(const node_fault& fault) {
    const auto ends = ends_of(fault);
    if (++cuts_[ends] == 1) network_.cut(fault.node, fault.other);
    end_later(fault, [this, ends] {
      if (--cuts_[ends] == 0) network_.heal(ends.first, ends.second);
    });
  }

  /// Slows down the link between two nodes by the longest delay that applies to it.
  void slow(const node_fault& fault) {
    const auto ends = ends_of(fault);
    const auto added = delays_[ends].insert(fault.delay);
    const auto apply = [this, ends] {
      const auto& delays = delays_[ends];
      network_.slow(ends.first, ends.second, delays.empty() ? time{0} : *delays.rbegin());
    };
    apply();
    end_later(fault, [this, ends, added, apply] {
      delays_[ends].erase(added);
      apply();
    });
  }

  void inject(const node_fault& fault) {
    switch (fault.what) {
      case node_fault::kind::kill:
        killed_[fault.node] = true;
        return network_.kill(fault.node);
      case node_fault::kind::freeze:
        frozen_until_[fault.node] = std::max(frozen_until_[fault.node].value_or(time{0}),
                                             fault.lasting.count() == 0 ? time::max() : now_ + fault.lasting);
        return network_.freeze(fault.node);
      case node_fault::kind::cut:
        return cut(fault);
      case node_fault::kind::reset_tensors:
        return network_.reset(fault.node, fault.other, transport::plane::tensors);
      case node_fault::kind::reset_control:
        return network_.reset(fault.node, fault.other, transport::plane::control);
      case node_fault::kind::slow:
        return slow(fault);
      case node_fault::kind::interrupt:
        return nodes_[fault.node]->interrupt(SIGTERM);
    }
  }

  /// Runs one of the events that are possible now. Returns false if there is none.
  bool run_event() {
    const auto deliverable = network_.deliverable(now_);
    auto possible = deliverable;
    for (std::uint32_t node = 0; node < nodes_.size(); ++node)
      if (is_live(node)) possible += nodes_[node]->jobs();
    if (possible == 0) return false;
    auto which = static_cast<std::size_t>(random_.below(possible));
    if (which < deliverable) {
      network_.deliver(which, now_);
      return true;
    }
    which -= deliverable;
    for (std::uint32_t node = 0; node < nodes_.size(); ++node) {
      if (!is_live(node)) continue;
      const auto jobs = nodes_[node]->jobs();
      if (which < jobs) {
        nodes_[node]->run_job(which);
        auto& ended_at = result_.nodes[node].ended_at;
        if (nodes_[node]->ended() && ended_at.count() == 0) ended_at = std::chrono::ceil<microseconds>(now_);
        return true;
      }
      which -= jobs;
    }
    return true;
  }

  /// Advances time to the next event. Returns false if there is none, or none within longest_wait.
  bool advance() {
    std::optional<time> next = network_.next_due();
    const auto consider = [&](std::optional<time> due) {
      if (due && *due < time::max()) next = next ? std::min(*next, *due) : due;
    };
    consider(faults_.next_due());
    if (!later_.empty()) consider(later_.begin()->first);
    for (std::uint32_t node = 0; node < nodes_.size(); ++node)
      if (is_live(node))
        consider(nodes_[node]->next_due());
      else if (!killed_[node])
        consider(frozen_until_[node]);
    if (!next || *next - now_ > options_.longest_wait) return false;
    now_ = std::max(now_, *next);
    if (options_.clock) *options_.clock = now_;
    check_virtual_time(now_);
    network_.reach(now_);
    for (std::uint32_t node = 0; node < nodes_.size(); ++node) {
      if (is_frozen(node) && *frozen_until_[node] <= now_ && !killed_[node]) {
        frozen_until_[node].reset();
        network_.thaw(node);
      }
      if (is_live(node)) nodes_[node]->reach(now_);
    }
    return true;
  }

  template <class Error>
  [[noreturn]] void fail(const std::string& how) const {
    std::string waiting;
    for (std::uint32_t node = 0; node < nodes_.size(); ++node)
      if (is_live(node) && !nodes_[node]->ended()) waiting += " " + plan_.nodes[node].name;
    throw Error("the simulated run " + how + " (schedule seed " + std::to_string(options_.seed) +
                (nodes_.size() > 1 ? "; nodes that have not ended:" + waiting : "") + ")");
  }

  const plan& plan_;
  const simulation_options& options_;
  const crew* first_{nullptr};  ///< The actors of the first node, once training has begun.
  data::random_stream random_;
  transport::simulated_network network_;
  fault_times faults_;  ///< Declared before the nodes, whose workers report their steps to it.
  std::vector<std::unique_ptr<simulated_node>> nodes_;
  std::vector<bool> killed_;
  std::vector<std::optional<time>> frozen_until_;
  std::multimap<time, std::function<void()>> later_;  ///< Ends of faults.
  std::map<node_pair, std::size_t> cuts_;             ///< Number of faults that cut the link between two nodes.
  std::map<node_pair, std::multiset<time>> delays_;   ///< Delays of the faults that slow it down.
  time now_{0};
  std::uint64_t turns_{0};  ///< Number of events and advances of time.
  int signal_{0};
  simulated_end result_;
};

}  // namespace

simulated_end simulate_nodes(const plan& plan, const data::dataset_pair& data, at::Tensor initial,
                             models::buffer_pool pool, std::shared_ptr<journal> journal,
                             const simulation_options& options) {
  for (const auto& exchange : plan.exchanges)
    if (exchange.nature.carried_by == carrier::device_library)
      refuse(plan.file, "exchange." + exchange.name + ".engine",
             exchange.name +
                 ": engine = \"nccl\" cannot be simulated or replayed: its calls wait for each other on the GPUs, and "
                 "lanes in virtual time run one after the other; use engine = \"troupe\"");
  for (const auto& exchange : plan.exchanges)
    if (exchange.nature.is_elsewhere())
      refuse(plan.file, "exchange." + exchange.name + ".actor",
             exchange.name + ": the actor " + exchange.nature.actor +
                 " is in another program, so the exchange cannot be simulated or replayed; run it with `troupe run "
                 "--actors`");
  simulation simulated{plan, options};
  simulated.start(data, initial, pool, journal);
  return simulated.run();
}

run_end simulate(const plan& plan, const data::dataset_pair& data, at::Tensor initial, models::buffer_pool pool,
                 std::shared_ptr<journal> journal, const simulation_options& options) {
  const auto result = simulate_nodes(plan, data, std::move(initial), std::move(pool), std::move(journal), options);
  const auto has_end = [](const auto& node) { return node.end.has_value(); };
  const auto first =
      std::find_if(result.nodes.begin(), result.nodes.end(), has_end);  // the first node, unless it is lost
  const auto is_stopped = options.stop_after > 0 && result.events >= options.stop_after;
  run_end end;
  if (first != result.nodes.end())
    end = *first->end;
  else if (!is_stopped)
    end.failure = "no node is left: each was killed or frozen (see [[fault]] in the topology file)";
  end.events = result.events;
  if (!is_stopped)
    for (const auto fault : result.not_injected) end.not_injected.push_back(describe(plan.faults[fault]));
  if (options.links) end.links = options.links->usage();
  return end;
}

}  // namespace troupe
