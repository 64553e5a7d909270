// Asynchronous wirings under hundreds of seeded schedules, with their invariants checked after each event.
#include "tests/support/doctest.hpp"
#include "tests/support/repeat.hpp"
#include "tests/support/watched.hpp"
#include "tests/support/wirings.hpp"

#include "troupe/runtime/launch/launcher.hpp"
#include "troupe/runtime/simulation/simulation.hpp"

#include <map>
#include <set>
#include <tuple>

namespace asynchronous_test {

namespace {

using namespace troupe;

/// One contribution: its worker, its server and its step.
using contribution = std::tuple<rank_id, rank_id, std::uint64_t>;

/// Events in the life of a contribution. Each happens at most once, and in this order.
struct fate {
  int sent{0}, taken{0}, answered{0}, heard{0};
};

class ledger final : public tests::witness {
 public:
  explicit ledger(std::uint32_t workers) : workers_(workers) {}

  void sent(rank_id by, rank_id to, const part& piece) override {
    is_server(by) ? ++all[{to, by, piece.origin.step}].answered : ++all[{by, to, piece.origin.step}].sent;
    if (!is_server(by)) return;
    // The version grows by one with each update. With apply = "each", every update has one answer.
    CHECK(piece.origin.version == ++versions[by]);
  }
  void taken(rank_id by, const part& piece) override {
    const auto from = piece.origin.sender;
    is_server(by) ? ++all[{from, by, piece.origin.step}].taken : ++all[{by, from, piece.origin.step}].heard;
  }
  void answered(rank_id, const part&) override {}

  /// Checks the invariants that hold at any moment.
  void check() const {
    std::map<std::pair<rank_id, rank_id>, int> under_way;
    for (const auto& [what, so_far] : all) {
      const auto good = so_far.sent <= 1 && so_far.taken <= so_far.sent && so_far.answered <= so_far.taken &&
                        so_far.heard <= so_far.answered;
      if (!good) FAIL_CHECK("a contribution was taken, or answered, twice or out of nothing");
      under_way[{std::get<0>(what), std::get<1>(what)}] += so_far.sent - so_far.heard;
    }
    for (const auto& [ends, open] : under_way)
      if (open > 1) FAIL_CHECK("a worker sent its next contribution before it had heard of the last");
  }

  std::map<contribution, fate> all;
  std::map<rank_id, std::uint64_t> versions;

 private:
  bool is_server(rank_id id) const { return static_cast<std::uint32_t>(id) >= workers_; }
  std::uint32_t workers_;
};

struct wiring {
  tests::tiny_options options;
  std::uint32_t servers;
  std::uint64_t contributions;  ///< Number of contributions of one worker to one server.
};

const std::vector<wiring> wirings{
    {{.workers = 3,
      .exchange = "parameter_server",
      .settings = {{"apply", std::string{"each"}}, {"shards", std::int64_t{2}}},
      .loop = {"gradient", "exchange"},
      .steps = 6,
      .evaluate_every = 3},
     2,
     6},
    {{.workers = 4,
      .exchange = "elastic",
      .settings = {{"apply", std::string{"each"}}, {"alpha", 0.2}},
      .every = 2,
      .steps = 7,
      .evaluate_every = 3},
     1,
     4},  // at steps 0, 2, 4 and 6
};

struct seen_run {
  std::shared_ptr<ledger> seen;
  std::shared_ptr<tests::remembered> journal;
};

/// Simulates `plan`, which has one exchange, of `kind`. Checks that every contribution is answered.
seen_run simulate_watched(plan& plan, const tests::tiny_options& options, const simulation_options& simulation) {
  seen_run run{std::make_shared<ledger>(options.workers), std::make_shared<tests::remembered>()};
  const auto kind = tests::watched(*find_exchange(options.exchange), run.seen);
  plan.exchanges.front().kind = &kind;
  auto checked = simulation;
  checked.after_event = [&](const crew& all, std::uint64_t count) {
    run.seen->check();
    if (simulation.after_event) simulation.after_event(all, count);
  };
  models::buffer_pool pool;
  const auto end =
      simulate(plan, tests::tiny_data(options.samples), initial_weights(plan, pool), pool, run.journal, checked);
  REQUIRE_FALSE(end.failure);
  for (const auto& [what, its] : run.seen->all)
    if (its.sent + its.taken + its.answered + its.heard != 4) FAIL_CHECK("a contribution was lost");
  return run;
}

}  // namespace

TEST_CASE("no contribution is lost, taken twice or answered twice, in whatever order messages come") {
  for (const auto& [options, servers, contributions] : wirings) {
    CAPTURE(options.exchange);
    auto plan = tests::tiny_plan(options);
    std::map<std::vector<float>, int> results;
    for (std::uint64_t seed = 0; seed < tests::repeat(250, 1000); ++seed) {
      CAPTURE(seed);
      const auto [seen, journal] = simulate_watched(plan, options, {.seed = seed});
      CHECK(seen->all.size() == options.workers * servers * contributions);
      for (const auto& [server, version] : seen->versions) CHECK(version == options.workers * contributions);
      CHECK(journal->lines.back().updates == options.workers * contributions);
      const auto* values = journal->result.const_data_ptr<float>();
      ++results[{values, values + journal->result.numel()}];
    }
    CHECK(results.size() > 100);  // the schedules differ
  }
}

TEST_CASE("servers that take contributions in a given order give the same bits under every schedule") {
  for (const auto& [options, servers, contributions] : wirings) {
    CAPTURE(options.exchange);
    std::vector<std::uint32_t> order;  // the first worker is far ahead, the last one far behind
    for (std::uint32_t worker = 0; worker < options.workers; ++worker) order.insert(order.end(), contributions, worker);
    std::swap(order.front(), order.back());
    auto plan = tests::tiny_plan(options);
    plan.when.evaluate_every = plan.steps;  // else workers could get ahead only to the second evaluation from here
    const auto kind = tests::in_order(*find_exchange(options.exchange), order);
    plan.exchanges.front().kind = &kind;
    at::Tensor first;
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
      CAPTURE(seed);
      models::buffer_pool pool;
      auto journal = std::make_shared<tests::remembered>();
      const auto end =
          simulate(plan, tests::tiny_data(options.samples), initial_weights(plan, pool), pool, journal, {.seed = seed});
      CAPTURE(end.failure.value_or(""));
      REQUIRE_FALSE(end.failure);
      if (!first.defined()) first = journal->result;
      CHECK(journal->result.equal(first));
    }
  }
}

TEST_CASE("an interrupt loses no contribution either: what was begun is brought to its end") {
  for (const auto& [options, servers, contributions] : wirings) {
    CAPTURE(options.exchange);
    auto plan = tests::tiny_plan(options);
    std::set<std::uint64_t> made;
    for (std::uint64_t event = 1; event < 300; event += tests::repeat(9, 3)) {
      CAPTURE(event);
      const auto [seen, journal] =
          simulate_watched(plan, options, {.seed = event, .after_event = tests::interrupt_at(event)});
      CHECK(journal->lines.back().updates * servers == seen->all.size());
      made.insert(seen->all.size());
    }
    CHECK(made.size() > 3);
  }
}

}  // namespace asynchronous_test
