// An exchange that loses a member in the middle of a step continues with the others, under a new generation. The actor
// that re-forms it takes the place of a future supervisor.
#include "tests/support/doctest.hpp"
#include "tests/support/stepped_system.hpp"

#include "troupe/actors/port/port.hpp"
#include "troupe/algorithms/exchange/registry.hpp"
#include "troupe/data/random/random.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <caf/all.hpp>
#include <caf/scheduler/test_coordinator.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace reform_test {

namespace {

using namespace troupe;

constexpr std::uint32_t members = 4;
constexpr std::uint64_t steps = 4;
constexpr std::int64_t elements = 32;

models::flat_layout small_layout() {
  models::flat_layout layout;
  layout.parameters = {{"w", {elements}, 0, elements}};
  layout.parameter_end = layout.total = layout.parameter_count = elements;
  return layout;
}

/// Spawns one member of an all_reduce of two; the test plays the other one.
port_actor spawn_one_of_two(caf::actor_system& system, bool can_reform) {
  return spawn_port(
      system,
      {.can_reform = can_reform,
       .own = {.among = {.world_size = 2}, .layout = small_layout(), .settings = {{"route", std::string{"direct"}}}}},
      find_exchange("all_reduce")->make_member);
}

float value_of(std::uint32_t rank, std::uint64_t step) {
  return static_cast<float>(1 << rank) + 32.0F * static_cast<float>(step);
}

/// The answers that a worker has received, by step.
using answers = std::vector<at::Tensor>;

struct worker_memory {
  port_actor port;
  std::uint32_t rank{0};
  std::uint64_t step{0};
  std::shared_ptr<answers> heard;
};

using begin_atom = advance_atom;

/// Contributes to each step, and waits for the answer.
class small_worker final : public caf::event_based_actor {
 public:
  small_worker(caf::actor_config& config, worker_memory memory)
      : caf::event_based_actor(config), my_(std::move(memory)) {}

  caf::behavior make_behavior() override {
    return {[this](begin_atom) { contribute(); }};
  }

 private:
  void contribute() {
    const stamp who{.run = run_id{5}, .sender = rank_id{my_.rank}, .step = my_.step};
    send(my_.port, part_atom_v,
         part{.origin = who,
              .piece = {0, at::full({elements}, value_of(my_.rank, my_.step))},
              .total = elements,
              .sample_count = 1});
    request(my_.port, caf::infinite, await_atom_v, who, key{}).then([this](const outcome& answer) {
      auto whole = at::empty({elements});
      for (const auto& piece : answer.pieces) whole.narrow(0, piece.first, piece.values.numel()).copy_(piece.values);
      my_.heard->push_back(whole);
      if (++my_.step < steps) contribute();
    });
  }

  worker_memory my_;
};

/// Pauses the remaining ports and re-forms their exchange.
class reformer final : public caf::event_based_actor {
 public:
  reformer(caf::actor_config& config, std::map<std::uint32_t, port_actor> left)
      : caf::event_based_actor(config), left_(std::move(left)) {}

  caf::behavior make_behavior() override {
    return {[this](begin_atom) {
      for (const auto& [rank, port] : left_)
        request(port, caf::infinite, pause_atom_v).then([this, rank = rank](const exchange_standing& one) {
          standing_[rank] = one;
          if (standing_.size() == left_.size()) reform();
        });
    }};
  }

 private:
  void reform() {
    std::optional<outcome> newest;
    std::vector<rank_id> ids;
    std::vector<caf::strong_actor_ptr> peers;
    for (const auto& [rank, port] : left_) {
      const auto& last = standing_[rank].last;
      if (last && (!newest || last->origin.step > newest->origin.step)) newest = last;
      ids.push_back(rank_id{rank});
      peers.push_back(caf::actor_cast<caf::strong_actor_ptr>(port));
    }
    std::uint32_t index = 0;
    for (const auto& [rank, port] : left_) {
      reformation now{.among = {.generation = 1,
                                .rank = rank_id{index++},
                                .world_size = static_cast<std::uint32_t>(left_.size()),
                                .ids = ids},
                      .peers = peers};
      if (newest && newest->origin.step == standing_[rank].step) now.missed = newest;
      send(port, reform_atom_v, now);
    }
  }

  std::map<std::uint32_t, port_actor> left_;
  std::map<std::uint32_t, exchange_standing> standing_;
};

struct loss_of_a_member {
  std::string route;
  std::uint64_t seed{0};
  std::uint32_t lost{0};
  std::uint64_t at_event{0};
};

/// Returns the answers that each worker received, and in `events` the number of processed messages.
std::map<std::uint32_t, answers> run(const loss_of_a_member& how, std::uint64_t& events) {
  testing::stepped_config settings;
  caf::actor_system system{settings};
  auto& scheduler = dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  std::map<std::uint32_t, port_actor> ports;
  std::vector<peer_port> peers;
  for (std::uint32_t rank = 0; rank < members; ++rank) {
    ports[rank] = spawn_port(system,
                             {.run = run_id{5},
                              .can_reform = true,
                              .own = {.among = {.rank = rank_id{rank}, .world_size = members},
                                      .layout = small_layout(),
                                      .settings = {{"route", how.route}},
                                      .chunk_elements = 8}},
                             find_exchange("all_reduce")->make_member);
    peers.emplace_back(ports[rank]);
  }
  std::map<std::uint32_t, std::shared_ptr<answers>> heard;
  std::map<std::uint32_t, caf::actor> workers;
  for (const auto& [rank, port] : ports) {
    heard[rank] = std::make_shared<answers>();
    caf::anon_send(port, wire_atom_v, peers);
    workers[rank] = system.spawn<small_worker>(worker_memory{port, rank, 0, heard[rank]});
    caf::anon_send(workers[rank], advance_atom_v);
  }
  caf::actor repair;
  data::random_stream random{how.seed};
  events = 0;
  while (scheduler.has_job()) {
    std::rotate(scheduler.jobs.begin(),
                scheduler.jobs.begin() + static_cast<std::ptrdiff_t>(random.below(scheduler.jobs.size())),
                scheduler.jobs.end());
    scheduler.run_once();
    if (++events != how.at_event) continue;
    caf::anon_send_exit(workers[how.lost], caf::exit_reason::kill);
    caf::anon_send_exit(ports[how.lost], caf::exit_reason::kill);
    auto left = ports;
    left.erase(how.lost);
    repair = system.spawn<reformer>(left);
    caf::anon_send(repair, advance_atom_v);
  }
  std::map<std::uint32_t, answers> all;
  for (const auto& [rank, found] : heard) all[rank] = *found;
  for (auto& [rank, worker] : workers) caf::anon_send_exit(worker, caf::exit_reason::kill);
  for (auto& [rank, port] : ports) caf::anon_send_exit(port, caf::exit_reason::kill);
  if (repair) caf::anon_send_exit(repair, caf::exit_reason::kill);
  while (scheduler.has_job()) scheduler.run_once();
  return all;
}

float mean_of(std::uint64_t step, std::optional<std::uint32_t> without) {
  float sum = 0;
  for (std::uint32_t rank = 0; rank < members; ++rank)
    if (rank != without) sum += value_of(rank, step);
  return sum / static_cast<float>(without ? members - 1 : members);
}

/// Checks that all survivors received the same answer at each step: first the mean of all members, later the mean of
/// the survivors.
void check(const std::map<std::uint32_t, answers>& heard, std::uint32_t lost) {
  const auto& reference = heard.at(lost == 0 ? 1 : 0);
  REQUIRE(reference.size() == steps);
  bool smaller = false;
  for (std::uint64_t step = 0; step < steps; ++step) {
    for (const auto& [rank, own] : heard) {
      if (rank == lost) continue;
      REQUIRE(own.size() == steps);
      CHECK(own[step].equal(reference[step]));
    }
    const auto found = reference[step][0].item<float>();
    CHECK(reference[step].equal(at::full({elements}, found)));
    smaller |= found != doctest::Approx(mean_of(step, {}));
    CHECK(found == doctest::Approx(mean_of(step, smaller ? std::optional{lost} : std::nullopt)));
  }
}

}  // namespace

TEST_CASE("an all_reduce continues with the members that are left, whenever one is lost") {
  for (const auto* route : {"direct", "chain", "ring"}) {
    CAPTURE(route);
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      CAPTURE(seed);
      std::uint64_t all_events = 0;
      run({.route = route, .seed = seed, .at_event = 0}, all_events);
      REQUIRE(all_events > 50);
      for (std::uint64_t event = 1; event < all_events; event += 1) {
        const auto lost = static_cast<std::uint32_t>((event + seed) % members);
        CAPTURE(event);
        CAPTURE(lost);
        std::uint64_t events = 0;
        const auto heard = run({.route = route, .seed = seed, .lost = lost, .at_event = event}, events);
        // The loss of a member after the last step has no effect.
        check(heard, lost);
      }
    }
  }
}

TEST_CASE("an exchange that was not paused, or cannot be re-formed, refuses it") {
  testing::stepped_config settings;
  caf::actor_system system{settings};
  auto& scheduler = dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  for (const bool can_reform : {false, true}) {
    const auto port = spawn_one_of_two(system, can_reform);
    caf::scoped_actor self{system};
    std::string refused, paused = "paused";
    auto reform =
        self->request(port, caf::infinite, reform_atom_v, reformation{.among = {.generation = 1, .world_size = 1}});
    while (scheduler.has_job()) scheduler.run_once();
    reform.receive([] {}, [&](const caf::error& why) { refused = describe(why); });
    CHECK(refused == "exchange: received reform without pause");
    auto pause = self->request(port, caf::infinite, pause_atom_v);
    while (scheduler.has_job()) scheduler.run_once();
    pause.receive([](const exchange_standing&) {}, [&](const caf::error& why) { paused = describe(why); });
    CHECK(paused == (can_reform ? "paused" : "exchange: cannot be re-formed"));
    if (can_reform) {
      auto skipping =
          self->request(port, caf::infinite, reform_atom_v, reformation{.among = {.generation = 2, .world_size = 1}});
      while (scheduler.has_job()) scheduler.run_once();
      skipping.receive([] {}, [&](const caf::error& why) { refused = describe(why); });
      CHECK(refused == "exchange: received generation 2; expected 1");
    }
    caf::anon_send_exit(port, caf::exit_reason::kill);
    while (scheduler.has_job()) scheduler.run_once();
  }
}

TEST_CASE("a port that receives too many parts of the next generation fails instead of dropping them") {
  constexpr std::uint64_t most = 4096;
  testing::stepped_config settings;
  caf::actor_system system{settings};
  auto& scheduler = dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  const auto port = spawn_one_of_two(system, true);
  std::string heard;
  caf::actor_cast<caf::abstract_actor*>(port)->attach_functor([&](const caf::error& why) { heard = describe(why); });
  for (std::uint64_t i = 0; i <= most; ++i) {
    CHECK(heard.empty());
    part next{.origin = {.sender = rank_id{1}, .step = i}};
    next.origin.generation = 1;
    caf::anon_send(port, part_atom_v, next);
    while (scheduler.has_job()) scheduler.run_once();
  }
  CHECK(heard == "exchange: received more than 4096 parts of the next generation before it was re-formed");
  caf::anon_send_exit(port, caf::exit_reason::kill);
  while (scheduler.has_job()) scheduler.run_once();
}

}  // namespace reform_test
