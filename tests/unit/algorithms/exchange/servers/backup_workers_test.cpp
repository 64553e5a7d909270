// parameter_server with apply = "first": Chen et al. 2016, "Revisiting Distributed Synchronous SGD", section 3.2.
#include "tests/support/doctest.hpp"
#include "tests/support/exchange_pump.hpp"

#include "troupe/algorithms/exchange/registry.hpp"
#include "troupe/algorithms/rules/reduce.hpp"
#include "troupe/algorithms/training/optimizer.hpp"
#include "troupe/data/random/random.hpp"

#include <ATen/ops/zeros.h>

#include <map>

namespace backup_workers_test {

namespace {

using namespace troupe;
using namespace troupe::testing;

constexpr std::uint64_t steps = 6;
const optimizer_options momentum{.lr = 0.125, .momentum = 0.9};

setting_values settings_of(const std::string& apply, std::int64_t first) {
  setting_values settings{{"apply", apply}, {"shards", std::int64_t{1}}};
  if (apply == "first") settings.emplace("first", first);
  return settings;
}

exchange_pump::options pumped(std::uint32_t workers, const setting_values& settings) {
  return {.workers = workers,
          .servers = 1,
          .steps = steps,
          .make =
              [=](rank_id rank) {
                return find_exchange("parameter_server")
                    ->make_member({.among = {.rank = rank, .world_size = workers, .servers = 1},
                                   .layout = three_parameters(),
                                   .settings = settings,
                                   .when = {.steps = steps},
                                   .optimizer = momentum,
                                   .initial = at::zeros({176})});
              },
          .bring =
              [](std::uint32_t rank, std::uint64_t step, const at::Tensor& last) {
                auto gradient = noise(176, rank, step);
                if (last.defined()) gradient += 0.5 * last;
                return part{.piece = {0, gradient}, .sample_count = 1 + rank};
              },
          .watch = {}};
}

/// An independent server: which gradients it must apply and refuse.
struct ledger {
  std::uint32_t workers{1};
  std::size_t first{1};
  std::uint64_t version{0}, applied{0}, refused{0};
  at::Tensor x = at::zeros({176});
  std::map<rank_id, rules::weighted> came{};
  std::shared_ptr<optimizer> engine = make_optimizer(momentum);
  models::buffer_pool pool{};

  void operator()(std::uint32_t to, const part& given, const sendings& sent) {
    if (to != workers) return;
    if (given.origin.version != version || given.origin.step != version) {
      refused += 1;
      REQUIRE(sent.size() == 1);
    } else {
      came.emplace(given.origin.sender, rules::weighted{given.piece.values, static_cast<double>(given.sample_count)});
      if (came.size() == first) apply();
    }
    for (const auto& [whom, answer] : sent) {
      CHECK(answer.origin.version == version);
      CHECK(answer.piece.values.equal(x));
    }
  }

  void apply() {
    std::vector<rules::weighted> gradients;
    for (const auto& [rank, one] : came) gradients.push_back(one);
    x = x.clone();
    engine->step(x, rules::mean_in_order(gradients, pool), 1, version);
    version += 1;
    applied += came.size();
    came.clear();
  }
};

}  // namespace

TEST_CASE("the first gradients make each update, and late ones are counted and never applied") {
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    const auto workers = 2 + static_cast<std::uint32_t>(seed % 4);
    const auto first = 1 + static_cast<std::uint32_t>(seed / 4 % workers);
    CAPTURE(seed);
    const auto journal = std::make_shared<ledger>();
    journal->workers = workers;
    journal->first = first;
    auto options = pumped(workers, settings_of("first", first));
    options.watch = [journal](std::uint32_t to, const part& given, const sendings& sent) {
      (*journal)(to, given, sent);
    };
    exchange_pump pump{options};
    pump.run_starving(static_cast<std::uint32_t>(seed % workers), data::keyed(seed, data::purpose::digits), [] {});
    const auto held = pump.held(workers, steps);
    CHECK(held.version == steps);
    CHECK(held.piece.values.equal(journal->x));
    CHECK(held.staleness.applied == first * steps);
    CHECK(held.staleness.refused == (workers - first) * steps);
    CHECK(held.staleness.refused == journal->refused);
    CHECK(held.staleness.most == 0);
    for (std::uint32_t rank = 0; rank < workers; ++rank) CHECK(pump.completed(rank) == steps);
  }
}

TEST_CASE("without backup workers, it is the synchronous server, bit for bit") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    exchange_pump all{pumped(3, settings_of("all", 0))}, first{pumped(3, settings_of("first", 3))};
    all.run(seed);
    first.run(seed);
    CHECK(all.held(3, steps).piece.values.equal(first.held(3, steps).piece.values));
  }
}

TEST_CASE("settings that do not fit are refused") {
  const std::vector<std::string> names{"w0", "w1"};
  const auto check = [&](setting_values settings) {
    settings.emplace("shards", std::int64_t{1});
    const auto found = find_exchange("parameter_server")->check(names, settings);
    return found ? found->key : std::string{};
  };
  CHECK(check({{"apply", std::string{"first"}}}) == "apply");
  CHECK(check({{"apply", std::string{"first"}}, {"first", std::int64_t{3}}}) == "first");
  CHECK(check({{"apply", std::string{"first"}}, {"first", std::int64_t{2}}}).empty());
  CHECK(check({{"apply", std::string{"all"}}, {"first", std::int64_t{2}}}) == "first");
  CHECK(check({{"apply", std::string{"all"}}, {"staleness_bound", std::int64_t{2}}}) == "staleness_bound");
}

}  // namespace backup_workers_test
