#include "troupe/runtime/node/simulation.hpp"

#include "troupe/data/random.hpp"
#include "troupe/runtime/node/run_end.hpp"

#include <caf/all.hpp>
#include <caf/scheduler/test_coordinator.hpp>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace troupe {

namespace {

struct system_config : caf::actor_system_config {
  system_config() { set("scheduler.policy", caf::atom("testing")); }
};

/// Does its jobs at once, in the handler that posts them; their results arrive some virtual time later, in order.
class simulated_lane final : public lane {
 public:
  simulated_lane(data::random_stream random, std::chrono::microseconds longest) : random_(random), longest_(longest) {}

  void post(caf::actor owner, job work) override {
    auto& clock = owner->home_system().clock();
    const auto length = std::chrono::microseconds{random_.below(static_cast<std::uint64_t>(longest_.count()) + 1)};
    free_ = std::max(free_, clock.now()) + length;
    const auto wait = std::chrono::duration_cast<std::chrono::microseconds>(free_ - clock.now());
    completion done{std::make_shared<std::function<void()>>(work())};
    caf::delayed_anon_send(owner, wait, done_atom_v, std::move(done));
  }
  std::shared_ptr<rendezvous> meeting_point() override { return nullptr; }

 private:
  data::random_stream random_;
  std::chrono::microseconds longest_;
  caf::actor_clock::time_point free_{};
};

/// Takes jobs and never answers.
class silent_lane final : public lane {
 public:
  void post(caf::actor, job) override {}
  std::shared_ptr<rendezvous> meeting_point() override { return nullptr; }
};

class simulated_lanes final : public lane_factory {
 public:
  simulated_lanes(data::random_stream random, const simulation_options& options)
      : random_(random), longest_(options.longest_job), silent_(options.silent_lane) {}
  std::unique_ptr<lane> make(const std::string& name) override {
    if (name == silent_) return std::make_unique<silent_lane>();
    return std::make_unique<simulated_lane>(data::random_stream{random_.next()}, longest_);
  }

 private:
  data::random_stream random_;
  std::chrono::microseconds longest_;
  std::string silent_;
};

/// Ends the actors of a simulated run, however it is left: the system waits for them.
struct curtain {
  const crew& all;
  caf::scheduler::test_coordinator& scheduler;
  ~curtain() {
    dismiss(all);
    while (scheduler.has_job()) scheduler.run_once();
  }
};

}  // namespace

run_end simulate(const plan& plan, const data::dataset_pair& data, at::Tensor initial, models::buffer_pool pool,
                 std::shared_ptr<journal> book, const simulation_options& options) {
  run_end end;
  blame blamed;
  bool ended = false;
  data::random_stream random{options.seed};
  simulated_lanes lanes{data::random_stream{random.next()}, options};
  system_config config;
  caf::actor_system system{config};
  auto& scheduler = dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());

  auto troupe = launch(system, plan, data, lanes,
                       {.book = std::move(book),
                        .initial = std::move(initial),
                        .pool = std::move(pool),
                        .open_device = options.open_device});
  for (const auto& [name, member] : troupe.members) {
    caf::actor_cast<caf::abstract_actor*>(member)->attach_functor([&, name = name](const caf::error& why) {
      if (why && why != caf::exit_reason::kill) blamed.hear(name, why);
      ended = true;
    });
  }
  const curtain at_the_end{troupe, scheduler};
  begin(troupe, troupe.workers);
  std::uint64_t events = 0;
  const auto run_one = [&] {
    std::rotate(scheduler.jobs.begin(),
                scheduler.jobs.begin() + static_cast<std::ptrdiff_t>(random.below(scheduler.jobs.size())),
                scheduler.jobs.end());
    scheduler.run_once();
    events += 1;
    if (options.after_event) options.after_event(troupe, events);
    if (events > options.most_events)
      throw std::runtime_error("the simulated run does not end (schedule seed " + std::to_string(options.seed) + ")");
  };
  while (!ended && (scheduler.has_job() || scheduler.trigger_timeout()))
    if (scheduler.has_job()) run_one();
  if (!ended) throw std::runtime_error("the simulated run stalls (schedule seed " + std::to_string(options.seed) + ")");
  end.failure = std::move(blamed.text);
  return end;
}

}  // namespace troupe
