// Properties of every exchange in the registry, whatever its settings, its encoding, its number of workers and their
// placement: replicas that it declares equal are equal after every step, and if it is deterministic, the result has the
// same bytes under every placement. All choices come from the registry, so that a new exchange, route or encoding is
// tested without a change here.
#include "tests/support/doctest.hpp"
#include "tests/support/drawn_exchange.hpp"
#include "tests/support/fixed_point.hpp"
#include "tests/support/one_peer.hpp"
#include "tests/support/repeat.hpp"

#include "troupe/algorithms/exchange/around/codec.hpp"
#include "troupe/algorithms/exchange/gossip/gossip_graph.hpp"
#include "troupe/algorithms/messages/journal.hpp"
#include "troupe/algorithms/messages/run_state.hpp"
#include "troupe/runtime/launch/launcher.hpp"
#include "troupe/runtime/simulation/simulation.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace registry_test {

namespace {

using namespace troupe;
using namespace troupe::tests;

/// Some of the digits.
const data::dataset_pair& some_digits() {
  static const data::dataset_pair made = [] {
    auto sets = data::find_dataset("digits")->load({});
    const auto first = [](const data::dataset& of, std::int64_t count) {
      auto some = std::make_shared<data::dataset>(of);
      some->inputs = of.inputs.narrow(0, 0, count);
      some->targets = of.targets.narrow(0, 0, count);
      return some;
    };
    sets.train = first(*sets.train, 200);
    sets.test = first(*sets.test, 20);
    return sets;
  }();
  return made;
}

/// Keeps the result of a run and its states at checkpoints.
struct states_kept final : journal {
  at::Tensor result;
  std::vector<run_state> states;

  void write(const record&) override {}
  void progress(std::uint64_t) override {}
  void keep(const snapshot&) override {}
  void save(const snapshot& saved) override { result = saved.values; }
  std::optional<state_dict> checkpoint(const run_state& state, bool) override {
    states.push_back(state);
    return {};
  }
};

/// Returns the exchange after which all workers have the same parameters, or null. It is the last exchange in the loop
/// and gives all workers the same answer: parameters, or gradients that they apply in every step.
const planned_exchange* equaliser_of(const plan& plan) {
  auto words = plan.file.workers.loop;
  const auto applies = words.back() == "apply";
  if (applies) words.pop_back();
  const auto answers = applies ? slot::gradient : slot::parameters;
  for (const auto& one : plan.exchanges)
    if (one.name == words.back() && one.nature.same_for_all && one.carries.answers == answers &&
        one.ranks().size() == plan.workers && (!applies || one.due.every == 1))
      return &one;
  return nullptr;
}

/// A codec that a program has registered: the properties of the exchanges hold with it, too.
[[maybe_unused]] const auto added_codec = register_codec(std::make_unique<tests::fixed_point>());
[[maybe_unused]] const bool added_graph = (register_graph(tests::one_peer()), true);

std::shared_ptr<states_kept> run_of(const plan& plan, std::uint64_t seed) {
  models::buffer_pool pool;
  auto journal = std::make_shared<states_kept>();
  auto initial = initial_weights(plan, pool);
  const auto failure = simulate(plan, some_digits(), std::move(initial), pool, journal, {.seed = seed}).failure;
  CHECK_MESSAGE(!failure, failure.value_or(""));
  return journal;
}

/// Makes the plan of a run whose replicas are compared.
plan compared_plan_of(const drawn_exchange& of, bool on_nodes) {
  auto made = plan_of(of, on_nodes);
  REQUIRE(made);
  const auto* exchange = equaliser_of(*made);
  if (!made->replicas_agree() && exchange != nullptr) made->when.checkpoint_every = exchange->due.every;
  return *made;
}

/// Checks the replicas that the catalogue declares equal. Returns whether there are any.
bool has_equal_replicas(const plan& plan, const states_kept& journal) {
  if (plan.replicas_agree()) {
    CHECK(plan.when.verify_every == 1);  // the run has compared them after every step
    return true;
  }
  const auto* exchange = equaliser_of(plan);
  if (exchange == nullptr) return false;
  bool compared = false;
  for (const auto& state : journal.states) {
    if (state.step == 0) continue;
    const auto of = [&](std::uint32_t rank) {
      return state.actors.at("worker " + std::to_string(rank)).tensor("x/values");
    };
    for (std::uint32_t rank = 1; rank < plan.workers; ++rank) CHECK(of(rank).equal(of(0)));
    compared = true;
  }
  CHECK(compared);
  return true;
}

}  // namespace

TEST_CASE("every registered exchange keeps equal what it declares equal, and its bytes wherever its workers are") {
  const auto count = repeat(40, 0);
  std::uint64_t seed = 0;
  for (const auto& drawn : draw_exchanges(count)) {
    std::uint64_t equal = 0, placed = 0;
    for (const auto& one : drawn.accepted) {
      CAPTURE(name_of(one));
      const auto alone = compared_plan_of(one, false);
      const auto expected = run_of(alone, ++seed);
      equal += has_equal_replicas(alone, *expected);
      if (!alone.deterministic()) continue;
      const auto apart = compared_plan_of(one, true);
      const auto other = run_of(apart, ++seed);
      has_equal_replicas(apart, *other);
      CHECK(other->result.equal(expected->result));
      placed += 1;
    }
    MESSAGE(drawn.kind->name << " of " << name_of(drawn.sends) << " in " << drawn.encoding << ": "
                             << drawn.accepted.size() << " accepted and " << drawn.refused << " refused; " << equal
                             << " kept replicas equal, " << placed << " had the bits of one process on nodes");
    // Parameters are not encoded, servers have no second round for PowerSGD, and some combinations of settings are
    // invalid, but no kind is refused altogether.
    const auto has_no_rounds = drawn.encoding == "powersgd" && drawn.kind->name == "parameter_server";
    if (drawn.encoding == encoding_names().front() || (drawn.sends == slot::gradient && !has_no_rounds))
      CHECK(drawn.accepted.size() >= std::max<std::uint64_t>(count / 8, 1));
  }
}

}  // namespace registry_test
