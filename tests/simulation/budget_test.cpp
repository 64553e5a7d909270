// A budget of steps that all workers share: run.budget = "total".
#include "tests/support/doctest.hpp"
#include "tests/support/repeat.hpp"
#include "tests/support/watched.hpp"
#include "tests/support/wirings.hpp"

#include "troupe/runtime/launch/launcher.hpp"
#include "troupe/runtime/simulation/simulation.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace budget_test {

namespace {

using namespace troupe;

/// tiny_data() as files that count how often each is read.
class counted_files final : public data::image_files {
 public:
  explicit counted_files(const data::dataset& of) : images_(of.inputs), reads(static_cast<std::size_t>(of.size())) {}

  std::vector<std::int64_t> shape() const override { return {1, 2, 2}; }
  void read(std::int64_t index, std::uint8_t* into) const override {
    ++reads[static_cast<std::size_t>(index)];
    std::copy_n(images_[index].const_data_ptr<std::uint8_t>(), 4, into);
  }
  std::string identity() const override { return "counted"; }
  std::shared_ptr<const data::image_files> chosen(const std::vector<std::int64_t>&) const override { return {}; }

 private:
  at::Tensor images_;

 public:
  mutable std::vector<std::uint64_t> reads;  ///< By sample.
};

/// Counts the contributions that each worker sends to the first server, and keeps the answers of the servers.
class contributions final : public tests::witness {
 public:
  explicit contributions(std::uint32_t workers) : sent_by(workers) {}
  void sent(rank_id by, rank_id to, const part& piece) override {
    const auto index = static_cast<std::size_t>(by);
    if (index < sent_by.size() && static_cast<std::size_t>(to) == sent_by.size()) ++sent_by[index];
    if (index >= sent_by.size()) held[{by, piece.origin.version}] = piece.piece.values;
  }
  void taken(rank_id, const part&) override {}
  void answered(rank_id, const part&) override {}

  std::vector<std::uint64_t> sent_by;
  std::map<std::pair<rank_id, std::uint64_t>, at::Tensor> held;  ///< By server and version.
};

struct seen_run {
  std::shared_ptr<counted_files> files;
  std::shared_ptr<contributions> ledger;
  std::shared_ptr<tests::remembered> journal;

  std::uint64_t steps() const {
    std::uint64_t all = 0;
    for (const auto count : ledger->sent_by) all += count;
    return all;
  }
  std::set<std::uint64_t> reads() const { return {files->reads.begin(), files->reads.end()}; }
};

seen_run run_of(const tests::tiny_options& options, const simulation_options& simulation,
                const learning_rate& lr = {}) {
  auto data = tests::tiny_data(options.samples);
  seen_run run{std::make_shared<counted_files>(*data.train), std::make_shared<contributions>(options.workers),
               std::make_shared<tests::remembered>()};
  auto train = *data.train;
  train.files = run.files;
  train.inputs.reset();
  data.train = std::make_shared<const data::dataset>(std::move(train));
  auto plan = tests::tiny_plan(options);
  const auto kind = tests::watched(*find_exchange(options.exchange), run.ledger);
  plan.exchanges.front().kind = &kind;
  plan.optimizer.schedule = lr;
  models::buffer_pool pool;
  const auto end = simulate(plan, data, initial_weights(plan, pool), pool, run.journal, simulation);
  CAPTURE(end.failure.value_or(""));
  REQUIRE_FALSE(end.failure);
  return run;
}

/// An epoch has 10 steps of 3 workers with batches of 2 from 60 samples.
const tests::tiny_options asgd{.workers = 3,
                               .exchange = "parameter_server",
                               .settings = {{"apply", std::string{"each"}}, {"shards", std::int64_t{2}}},
                               .loop = {"gradient", "exchange"},
                               .steps = 10,
                               .evaluate_every = 4,
                               .total_budget = true};

/// With batch norms local to each worker, so that the result depends on every worker.
const tests::tiny_options easgd{.normed = true,
                                .workers = 3,
                                .exchange = "elastic",
                                .settings = {{"apply", std::string{"each"}}, {"alpha", 0.2}},
                                .every = 1,
                                .steps = 10,
                                .evaluate_every = 4,
                                .total_budget = true};

const tests::tiny_options hogwild{.workers = 3,
                                  .exchange = "shared",
                                  .settings = {{"lock", false}, {"atomic", false}},
                                  .loop = {"gradient", "apply"},
                                  .steps = 10,
                                  .evaluate_every = 4,
                                  .total_budget = true};

}  // namespace

TEST_CASE("all workers together make n · steps updates, and draw each batch of an epoch once") {
  for (const auto* options : {&asgd, &easgd}) {
    CAPTURE(options->exchange);
    std::set<std::vector<std::uint64_t>> divisions;
    for (std::uint64_t seed = 0; seed < tests::repeat(100, 200); ++seed) {
      CAPTURE(seed);
      const auto run = run_of(*options, {.seed = seed});
      CHECK(run.steps() == 30);
      CHECK(run.journal->lines.back().updates == 30);
      CHECK(run.reads() == std::set<std::uint64_t>{1});
      divisions.insert(run.ledger->sent_by);
    }
    CHECK(divisions.size() > 5);  // faster workers make more of the steps
  }
}

TEST_CASE("epochs, evaluations and the end come after so many updates of all workers together") {
  auto options = asgd;
  options.steps = 25;
  for (std::uint64_t seed = 0; seed < tests::repeat(20, 50); ++seed) {
    CAPTURE(seed);
    const auto run = run_of(options, {.seed = seed});
    std::vector<std::uint64_t> evaluated, epochs;
    for (const auto& line : run.journal->of("evaluation")) {
      evaluated.push_back(line.step);
      CHECK(line.updates >= 3 * line.step);
    }
    for (const auto& line : run.journal->of("epoch")) epochs.push_back(line.step);
    CHECK(evaluated == std::vector<std::uint64_t>{4, 8, 12, 16, 20, 24, 25});
    CHECK(epochs == std::vector<std::uint64_t>{10, 20});
    CHECK(run.journal->lines.back().step == 25);
    CHECK(run.journal->lines.back().status == "done");
    std::map<std::uint64_t, int> times;  // the third epoch drew half of the samples
    for (const auto count : run.files->reads) ++times[count];
    CHECK(times == std::map<std::uint64_t, int>{{2, 30}, {3, 30}});
  }
}

TEST_CASE("the learning rate changes after so many updates of all workers together") {
  const learning_rate lr{.how = learning_rate::decay::step, .decay_at = {5}, .decay_factor = 0};
  for (std::uint64_t seed = 0; seed < tests::repeat(20, 50); ++seed) {
    CAPTURE(seed);
    const auto run = run_of(asgd, {.seed = seed}, lr);
    for (const auto server : {rank_id{3}, rank_id{4}}) {
      CHECK_FALSE(run.ledger->held.at({server, 14}).equal(run.ledger->held.at({server, 15})));
      CHECK(run.ledger->held.at({server, 15}).equal(run.ledger->held.at({server, 30})));
    }
  }
}

TEST_CASE("an interrupt ends a shared budget wherever it comes, and nothing that was begun is lost") {
  for (auto options : {asgd, easgd}) {
    CAPTURE(options.exchange);
    options.steps = 25;  // two epochs end without an evaluation
    std::set<std::uint64_t> ends;
    for (std::uint64_t event = 1; event < 600; event += tests::repeat(11, 3)) {
      CAPTURE(event);
      const auto run = run_of(options, {.seed = event, .after_event = tests::interrupt_at(event)});
      const auto& end = run.journal->lines.back();
      CHECK(end.event == "end");
      CHECK(end.updates == run.steps());
      CHECK(end.step == run.steps() / 3);
      CHECK(*run.reads().rbegin() <= 3);
      CHECK(run.journal->result.defined());
      ends.insert(end.updates);
    }
    CHECK(ends.size() > 5);
  }
}

TEST_CASE("a run of no steps ends") {
  auto options = asgd;
  options.steps = 0;
  const auto none = run_of(options, {});
  CHECK(none.steps() == 0);
  CHECK(none.journal->lines.back().step == 0);
}

TEST_CASE("with one worker, both budgets give the same result") {
  auto options = asgd;
  options.workers = 1;
  const auto total = run_of(options, {.seed = 1});
  options.total_budget = false;
  const auto own = run_of(options, {.seed = 2});
  CHECK(total.journal->result.equal(own.journal->result));
  CHECK(total.journal->lines.back().train_loss == own.journal->lines.back().train_loss);
}

TEST_CASE("a shared memory takes the steps of a shared budget") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto run = run_of(hogwild, {.seed = seed});
    CHECK(run.journal->lines.back().updates == 30);
    CHECK(run.reads() == std::set<std::uint64_t>{1});
  }
}

}  // namespace budget_test
