// Staleness that can be computed in advance: that of an asynchronous server, whatever the speeds of its workers, and
// that of local steps on a shared memory.
#include "troupe/algorithms/rules/staleness.hpp"

#include "tests/support/doctest.hpp"
#include "tests/support/exchange_pump.hpp"

#include "troupe/algorithms/exchange/kinds/catalogue.hpp"
#include "troupe/algorithms/exchange/registry.hpp"
#include "troupe/algorithms/training/shared_memory.hpp"
#include "troupe/data/random/random.hpp"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

namespace staleness_test {

namespace {

using namespace troupe;
using namespace troupe::testing;

std::unique_ptr<member> server_of_each(std::uint32_t workers) {
  return find_exchange("parameter_server")
      ->make_member({.among = {.rank = rank_id{workers}, .world_size = workers, .servers = 1, .ids = {}},
                     .layout = one_parameter(),
                     .pool = {},
                     .settings = {{"apply", std::string{"each"}}, {"shards", std::int64_t{1}}},
                     .when = {.steps = 1'000'000},
                     .optimizer = {.lr = 0.5},
                     .initial = at::zeros({16})});
}

/// Workers that push a gradient and fetch the result, in any order.
struct asynchronous_run {
  explicit asynchronous_run(std::uint32_t workers)
      : server_side(server_of_each(workers)), steps(workers, 0), fetched(workers, 0) {}

  void push(std::uint32_t worker) {
    server_side->receive({.origin = {.sender = rank_id{worker}, .step = steps[worker]++, .version = fetched[worker]},
                          .piece = {0, at::ones({16})},
                          .total = 16,
                          .sample_count = 1},
                         out);
    fetched[worker] = out.sent.back().second.origin.version;
    out.sent.clear();
  }

  staleness_tally tally() { return server_side->held(0)->staleness; }

  std::unique_ptr<member> server_side;
  kept out;
  std::vector<std::uint64_t> steps, fetched;
};

}  // namespace

TEST_CASE("with a staleness of τ, steps γ on a curvature h are stable up to γh = 2 sin(π/(4τ + 2))") {
  for (const std::uint32_t n : {1U, 2U, 4U}) {
    CAPTURE(n);
    // n workers take turns, f = h (x + 1)²/2 from x = 0: y = x + 1 becomes y − γh y′, where y′ is n − 1 updates old.
    const auto growth = [&](double gamma_h) {
      const auto server_side = server_of_each(n);  // lr = 0.5
      std::vector<double> fetched(n, 1);           ///< y′
      std::vector<std::uint64_t> versions(n, 0);
      kept out;
      double early = 0, late = 0;
      constexpr std::uint64_t updates = 400, period = 30;  // at least 4τ + 2
      for (std::uint64_t i = 0; i < updates; ++i) {
        const auto worker = static_cast<std::uint32_t>(i % n);
        server_side->receive({.origin = {.sender = rank_id{worker}, .step = i / n, .version = versions[worker]},
                              .piece = {0, at::full({16}, static_cast<float>(gamma_h / 0.5 * fetched[worker]))},
                              .total = 16,
                              .sample_count = 1},
                             out);
        const auto& answer = out.sent.back().second;
        fetched[worker] = answer.piece.values[0].item<double>() + 1;
        versions[worker] = answer.origin.version;
        out.sent.clear();
        if (i >= period && i < 2 * period) early = std::max(early, std::abs(fetched[worker]));
        if (i >= updates - period) late = std::max(late, std::abs(fetched[worker]));
      }
      return late / early;
    };
    const auto limit = 2 * std::sin(std::acos(-1.0) / (4 * (n - 1) + 2));
    CHECK(growth(0.98 * limit) < 1);
    CHECK(growth(1.02 * limit) > 1);
  }
}

TEST_CASE("the mean staleness of an asynchronous server is n − 1 at any speeds, but for what is still under way") {
  for (const std::uint32_t n : {1U, 2U, 4U, 7U}) {
    for (const std::uint64_t factor : {1U, 10U, 1'000U}) {  // worker 0 is `factor` times as fast as each other worker
      CAPTURE(n);
      CAPTURE(factor);
      asynchronous_run run{n};
      data::random_stream random{data::keyed(11, data::purpose::digits, n, factor)};
      constexpr std::uint64_t updates = 20'000;
      for (std::uint64_t i = 0; i < updates; ++i) {
        const auto drawn = random.below(factor + n - 1);
        run.push(drawn < factor ? 0 : static_cast<std::uint32_t>(drawn - factor + 1));
      }
      const auto found = run.tally();
      CHECK(found.applied == updates);
      // Each update makes each of the n − 1 other gradients under way one version older.
      std::uint64_t under_way = 0;
      for (const auto version : run.fetched) under_way += updates - version;
      CHECK(found.sum + under_way == (n - 1) * updates);
      if (factor == 10) CHECK(rules::mean(found) == doctest::Approx(n - 1).epsilon(0.02));
      if (factor == 1'000 && n > 1) CHECK(found.most > 1'000);  // of the slow workers, which the mean does not show
    }
  }
}

TEST_CASE("workers that take turns with H local steps are (n − 1)H behind, and the documents say so") {
  constexpr std::uint64_t workers = 4, local_steps = 5, rounds = 50;
  const auto memory = shared_memory::make(at::zeros({1}), 1, memory_writes::plain);
  std::vector<std::uint64_t> seen(workers, 0);
  for (std::uint64_t turn = 0; turn < workers * rounds; ++turn) {
    auto& when_read = seen[turn % workers];
    memory->count_at_once(local_steps, when_read);
    when_read = memory->updates();
  }
  const auto found = memory->staleness();
  CHECK(found.applied == workers * local_steps * rounds);
  CHECK(found.most == (workers - 1) * local_steps);
  CHECK(found.counts.back() == (workers * rounds - (workers - 1)) * local_steps);  // all turns but the first three
  CHECK(facts_of_kind("shared").variants.front().staleness.find("(n − 1)H with H local steps") != std::string::npos);
  CHECK(facts_of_kind("parameter_server").variants.back().staleness.find("whatever the workers' speeds") !=
        std::string::npos);
}

}  // namespace staleness_test
