// The messages of a compute actor that save and restore its state.
#include "troupe/actors/compute/compute.hpp"

#include "tests/support/digits_replica.hpp"
#include "tests/support/doctest.hpp"
#include "tests/support/stepped_system.hpp"

#include "troupe/actors/wire/error.hpp"

#include <ATen/ops/zeros.h>
#include <caf/all.hpp>
#include <caf/scheduler/test_coordinator.hpp>

#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace compute_test {

namespace {

using namespace troupe;

/// A compute actor on the built-in digits with a momentum of 0.9.
struct stage_with_compute {
  testing::stepped_config settings;
  caf::actor_system system{settings};
  caf::scheduler::test_coordinator& scheduler{dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler())};
  caf::scoped_actor self{system};
  replica_options options;
  at::Tensor initial;

  stage_with_compute() {
    auto made = testing::make_digits_replica("lenet", {.lr = 0.1, .momentum = 0.9});
    options = std::move(made.options);
    initial = std::move(made.initial);
  }

  compute_actor spawn() { return spawn_compute(system, options, {}, std::make_unique<testing::immediate_lane>()); }

  /// Sends a request and returns its answer, or puts the error's text into `refused`.
  template <class Answer, class... Words>
  std::optional<Answer> ask(const compute_actor& whom, std::string& refused, Words... words) {
    auto pending = self->request(whom, caf::infinite, std::move(words)...);
    while (scheduler.has_job()) scheduler.run_once();
    std::optional<Answer> found;
    pending.receive([&](Answer& answer) { found = std::move(answer); },
                    [&](const caf::error& why) { refused = describe(why); });
    return found;
  }

  advanced step(const compute_actor& whom, const snapshot& from) {
    std::string refused;
    const advance asked{.verbs = {verb::gradient, verb::apply}, .times = 2, .from = from};
    auto done = ask<advanced>(whom, refused, advance_atom_v, asked, caf::strong_actor_ptr{});
    REQUIRE(refused.empty());
    return *done;
  }

  state_dict state_of(const compute_actor& whom) {
    std::string refused;
    return ask<state_dict>(whom, refused, state_atom_v).value();
  }

  /// Restores a state. Returns why it was refused, or nothing.
  std::string restore(const compute_actor& whom, const state_dict& saved) {
    std::string refused;
    auto pending = self->request(whom, caf::infinite, restore_atom_v, saved);
    while (scheduler.has_job()) scheduler.run_once();
    pending.receive([] {},
                    [&](const caf::error& why) {
                      CHECK(is(why, errc::failed));
                      refused = describe(why);
                    });
    return refused;
  }
};

}  // namespace

TEST_CASE("a compute actor that is given the state of another takes the same steps") {
  stage_with_compute here;
  const auto first = here.spawn(), second = here.spawn();
  CHECK(here.state_of(first).empty());  // no replica has been made
  const auto then = here.step(first, {{}, here.initial});
  const auto saved = here.state_of(first);
  CHECK(saved.has("optimizer/momentum_buffer"));
  const auto expected = here.step(first, then.now);
  CHECK(here.restore(second, saved).empty());
  CHECK(here.state_of(second).has("optimizer/momentum_buffer"));
  CHECK(here.step(second, then.now).now.values.equal(expected.now.values));
  CHECK_FALSE(here.step(here.spawn(), then.now).now.values.equal(expected.now.values));
}

TEST_CASE("a compute actor refuses a state that does not fit, with the reason") {
  stage_with_compute here;
  const auto one = here.spawn();
  state_dict saved;
  saved.put("optimizer/momentum_buffer", at::zeros({3}));
  const auto elements = std::to_string(here.options.layout.parameter_end);
  CHECK(here.restore(one, saved) == "the entry \"momentum_buffer\" has 3 elements; expected " + elements);
}

}  // namespace compute_test
