// Asynchronous runs that are killed or interrupted and continued. Books that are kept during the run show that nothing
// is lost or applied twice.
#include "tests/support/ledger.hpp"

#include "tests/support/doctest.hpp"
#include "tests/support/repeat.hpp"
#include "tests/support/wirings.hpp"

#include "troupe/data/random/random.hpp"
#include "troupe/runtime/launch/launcher.hpp"
#include "troupe/runtime/simulation/simulation.hpp"

#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <caf/all.hpp>

#include <numeric>

namespace ledger_test {

namespace {

using namespace troupe;
using tests::ledger;
using tests::remembered;
using tests::server_rule;

struct wiring {
  std::string name;
  tests::tiny_options options;
  std::uint32_t servers;
  server_rule rule;
};

setting_values server(const std::string& apply, std::int64_t shards) {
  return {{"apply", apply}, {"shards", shards}};
}

setting_values bounded() {
  auto settings = server("each", 1);
  settings.emplace("staleness_bound", std::int64_t{1});
  return settings;
}

setting_values first_two() {
  auto settings = server("first", 1);
  settings.emplace("first", std::int64_t{2});
  return settings;
}

tests::tiny_options with_server(const setting_values& settings, bool total_budget = false) {
  return {.workers = 3,
          .exchange = "parameter_server",
          .settings = settings,
          .loop = {"gradient", "exchange"},
          .steps = 12,
          .evaluate_every = 4,
          .total_budget = total_budget};
}

tests::tiny_options with_centre(std::uint64_t every, bool total_budget = false) {
  return {.workers = 3,
          .exchange = "elastic",
          .settings = {{"apply", std::string{"each"}}, {"alpha", 0.2}},
          .every = every,
          .steps = 12,
          .evaluate_every = 4,
          .total_budget = total_budget};
}

const std::vector<wiring>& wirings() {
  constexpr server_rule each{.lr = 0.5, .momentum = 0.5};
  constexpr server_rule of_two{.first = 2, .lr = 0.5, .momentum = 0.5};
  constexpr server_rule centre{.alpha = 0.2};
  static const std::vector<wiring> all{
      {"asgd", with_server(server("each", 2)), 2, each},
      {"bounded staleness", with_server(bounded()), 1, each},
      {"the first two gradients", with_server(first_two()), 1, of_two},
      {"elastic", with_centre(2), 1, centre},
      {"asgd, shared budget", with_server(server("each", 2), true), 2, each},
      {"elastic, shared budget", with_centre(1, true), 1, centre},
  };
  return all;
}

/// A run that is cut off and continued, and its ledger.
class cut_run {
 public:
  cut_run(const wiring& wiring, std::uint64_t checkpoint_every)
      : wiring_(wiring),
        plan_(tests::tiny_plan(wiring.options)),
        seen_(std::make_shared<ledger>(wiring.options.workers, wiring.servers)),
        kind_(tests::watched(*find_exchange(wiring.options.exchange), seen_)) {
    plan_.exchanges.front().kind = &kind_;
    plan_.when.checkpoint_every = checkpoint_every;
    initial_ = initial_weights(plan_, pool_).clone();
  }

  /// Runs from the last checkpoint to the end or to this event, at which the process dies or is interrupted.
  /// Returns whether the run is complete.
  bool run(std::uint64_t seed, std::uint64_t event, bool dies) {
    journal_ = std::make_shared<remembered>();
    simulation_options options{.seed = seed, .restored = restored_};
    if (dies) options.most_events = event;
    if (!dies) options.after_event = tests::interrupt_at(event);
    try {
      const auto end = simulate(plan_, tests::tiny_data(), initial_weights(plan_, pool_), pool_, journal_, options);
      REQUIRE_MESSAGE(!end.failure, end.failure.value_or(""));
    } catch (const std::runtime_error& problem) {
      REQUIRE(dies);
      CHECK(std::string{problem.what()}.find("did not end") != std::string::npos);
      return false;
    }
    return journal_->lines.back().status == "done";
  }

  /// Goes back to the last checkpoint, or to the beginning. Returns the number of events that will be repeated.
  std::size_t go_back() {
    if (journal_->checkpoint_taken) restored_ = journal_->checkpoint_taken;
    return seen_->go_back(restored_.get(), "exchange");
  }

  std::uint64_t restored_step() const { return restored_ ? restored_->step : 0; }

  /// Checks the books of a complete run.
  void check() const {
    std::set<std::uint64_t> steps;
    for (std::uint64_t step = 0; !plan_.draws_from_queue() && step < plan_.steps; step += wiring_.options.every)
      steps.insert(step);
    CHECK(seen_->complaint(steps, wiring_.rule, initial_) == "");
    const auto most = wiring_.options.workers * plan_.steps / wiring_.options.every;
    CHECK((wiring_.rule.first > 0 ? seen_->contributions() <= most : seen_->contributions() == most));
    std::uint64_t applied = 0, refused = 0;
    for (std::uint32_t index = 0; index < wiring_.servers; ++index) {
      const auto model = seen_->model_of(index, wiring_.rule, initial_);
      applied += model.applied();
      refused += model.refused();
      CHECK(model.applied() + model.refused() == seen_->contributions());
      CHECK(model.version() == journal_->lines.back().updates);
    }
    check_counters(applied, refused);
    check_result();
  }

 private:
  /// Compares the counters in the last line with the books.
  void check_counters(std::uint64_t applied, std::uint64_t refused) const {
    const auto& line = journal_->lines.back();
    CHECK(line.gradients_refused.value_or(0) == static_cast<double>(refused));
    if (wiring_.rule.alpha > 0) return;  // a centre applies no gradients
    CHECK(std::accumulate(line.staleness_counts.begin(), line.staleness_counts.end(), std::uint64_t{0}) == applied);
  }

  void check_result() const {
    std::vector<at::Tensor> held;
    for (std::uint32_t index = 0; index < wiring_.servers; ++index)
      held.push_back(seen_->model_of(index, wiring_.rule, initial_).values());
    const auto expected = at::cat(held);
    const auto found = journal_->result.narrow(0, 0, expected.numel()).to(at::kDouble);
    CHECK(at::allclose(found, expected, 1e-4, 1e-4));
  }

  const wiring& wiring_;
  plan plan_;
  std::shared_ptr<ledger> seen_;
  exchange_kind kind_;
  models::buffer_pool pool_;
  at::Tensor initial_;
  std::shared_ptr<remembered> journal_;
  std::shared_ptr<const run_state> restored_;
};

}  // namespace

TEST_CASE("nothing is lost or applied twice in asynchronous runs that are cut off and continued") {
  const auto seeds = tests::repeat(40, 200);
  for (const auto& wiring : wirings()) {
    CAPTURE(wiring.name);
    std::uint64_t from_checkpoints = 0;
    std::size_t repeated = 0;
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
      CAPTURE(seed);
      data::random_stream random{seed};
      cut_run run{wiring, 1 + random.below(5)};
      bool complete = false;
      for (int cut = 0; cut < 2 && !complete; ++cut) {
        complete = run.run(random.next(), 1 + random.below(400), random.below(2) == 0);
        if (complete) break;
        repeated += run.go_back();
        from_checkpoints += run.restored_step() > 0 ? 1 : 0;
      }
      constexpr auto never = ~std::uint64_t{0};
      if (!complete) REQUIRE(run.run(random.next(), never, false));
      run.check();
    }
    CHECK(from_checkpoints > seeds / 2);
    CHECK(repeated > seeds);  // runs were killed after their last checkpoint
  }
}

}  // namespace ledger_test
