// parameter_server with apply = "each" and a staleness bound: Ho et al. 2013, "More Effective Distributed ML via a
// Stale Synchronous Parallel Parameter Server".
#include "tests/support/doctest.hpp"
#include "tests/support/exchange_pump.hpp"

#include "troupe/algorithms/exchange/registry.hpp"
#include "troupe/data/random/random.hpp"

#include <ATen/ops/allclose.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace bounded_staleness_test {

namespace {

using namespace troupe;
using namespace troupe::testing;

struct wiring {
  std::uint32_t workers{3}, shards{1};
  std::uint64_t steps{6};
  std::optional<std::int64_t> bound{};
};

std::unique_ptr<member> make(const wiring& wired, rank_id rank) {
  setting_values settings{{"apply", std::string{"each"}}, {"shards", static_cast<std::int64_t>(wired.shards)}};
  if (wired.bound) settings.emplace("staleness_bound", *wired.bound);
  return find_exchange("parameter_server")
      ->make_member({.among = {.rank = rank, .world_size = wired.workers, .servers = wired.shards},
                     .layout = three_parameters(),
                     .settings = settings,
                     .when = {.steps = wired.steps},
                     .optimizer = {.lr = 0.125},
                     .initial = at::zeros({176})});
}

exchange_pump::options pumped(const wiring& wired) {
  return {.workers = wired.workers,
          .servers = wired.shards,
          .steps = wired.steps,
          .make = [wired](rank_id rank) { return make(wired, rank); },
          .bring =
              [](std::uint32_t rank, std::uint64_t step, const at::Tensor& last) {
                auto gradient = noise(176, rank, step);
                if (last.defined()) gradient += 0.5 * last;
                return part{.piece = {0, gradient}, .sample_count = 1};
              },
          .watch = {}};
}

/// Checks, at every delivery to a server, that the slowest workers are answered at once.
struct slowest_never_wait {
  wiring wired;
  std::map<std::uint32_t, std::vector<std::uint64_t>> next{};  ///< By server, then by worker.

  void operator()(std::uint32_t to, const part& given, const sendings& sent) {
    if (to < wired.workers) return;
    auto& clocks = next.try_emplace(to, wired.workers, 0).first->second;
    const auto from = static_cast<std::uint32_t>(given.origin.sender);
    clocks[from] = given.origin.step + 1;
    if (clocks[from] != *std::min_element(clocks.begin(), clocks.end())) return;
    CHECK(std::any_of(sent.begin(), sent.end(), [&](const auto& one) { return one.first == from; }));
  }
};

}  // namespace

TEST_CASE("no worker begins a step more than the bound ahead of the slowest, which never waits") {
  std::uint64_t schedules = 0;
  for (const std::int64_t bound : {0, 1, 3}) {
    for (std::uint64_t seed = 0; seed < 700; ++seed, ++schedules) {
      const wiring wired{.workers = 2 + static_cast<std::uint32_t>(seed % 3),
                         .shards = 1 + static_cast<std::uint32_t>(seed % 2),
                         .bound = bound};
      CAPTURE(bound);
      CAPTURE(seed);
      auto options = pumped(wired);
      const auto clocks = std::make_shared<slowest_never_wait>(slowest_never_wait{wired});
      options.watch = [clocks](std::uint32_t to, const part& given, const sendings& sent) {
        (*clocks)(to, given, sent);
      };
      exchange_pump pump{options};
      std::uint64_t furthest = 0;
      // A worker has completed a step when its answer arrives; the slowest, once its gradient is applied everywhere.
      const auto check = [&] {
        std::uint64_t least = clocks->next.size() < wired.shards ? 0 : wired.steps;
        for (const auto& [server, of_workers] : clocks->next)
          least = std::min(least, *std::min_element(of_workers.begin(), of_workers.end()));
        for (std::uint32_t rank = 0; rank < wired.workers; ++rank)
          furthest = std::max(furthest, std::max(pump.completed(rank), least) - least);
      };
      pump.run_starving(static_cast<std::uint32_t>(seed % wired.workers), data::keyed(seed, data::purpose::digits),
                        check);
      CHECK(furthest <= static_cast<std::uint64_t>(bound));
      for (std::uint32_t rank = 0; rank < wired.workers; ++rank) CHECK(pump.completed(rank) == wired.steps);
      const auto held = pump.held(wired.workers, wired.steps);
      CHECK(held.version == wired.workers * wired.steps);
      CHECK(held.staleness.most <= (2 * static_cast<std::uint64_t>(bound) + 1) * (wired.workers - 1));
    }
  }
  CHECK(schedules >= 2'000);
}

TEST_CASE("with a bound of s, a gradient can be stale by (2s + 1)(n − 1) updates, which is the most") {
  for (const std::uint64_t bound : {0U, 1U, 2U, 3U}) {
    for (const std::uint32_t n : {2U, 4U}) {
      CAPTURE(bound);
      CAPTURE(n);
      exchange_pump pump{pumped({.workers = n, .steps = 9, .bound = static_cast<std::int64_t>(bound)})};
      const auto step = [&](std::uint32_t worker) {
        pump.contribute(worker);
        pump.deliver(worker, n);
        pump.deliver(n, worker);
      };
      // Worker 0 gets s steps ahead and begins the next one. The others catch up and get ahead as far as they may.
      for (std::uint64_t i = 0; i < bound; ++i) step(0);
      pump.contribute(0);
      for (std::uint64_t i = 0; i < 2 * bound; ++i)
        for (std::uint32_t worker = 1; worker < n; ++worker) step(worker);
      for (std::uint32_t worker = 1; worker < n; ++worker) {
        pump.contribute(worker);
        pump.deliver(worker, n);  // the answer is held back
      }
      pump.deliver(0, n);
      CHECK(pump.held(n, 0).staleness.most == (2 * bound + 1) * (n - 1));
    }
  }
}

TEST_CASE("without a bound, the same schedules let workers run ahead") {
  std::uint64_t furthest = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    exchange_pump pump{pumped({})};
    pump.run_starving(0, data::keyed(seed, data::purpose::digits), [&] {
      for (std::uint32_t rank = 0; rank < 3; ++rank)
        furthest = std::max(furthest, pump.completed(rank) - pump.completed_by_all());
    });
  }
  CHECK(furthest > 3);
}

TEST_CASE("a bound that is never reached changes nothing") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    exchange_pump unbounded{pumped({})}, bounded{pumped({.bound = 6})};
    unbounded.run(seed);
    bounded.run(seed);
    CHECK(unbounded.held(3, 6).piece.values.equal(bounded.held(3, 6).piece.values));
    CHECK(unbounded.held(3, 6).staleness.counts == bounded.held(3, 6).staleness.counts);
  }
}

TEST_CASE("with a bound of 0, each step uses the sum of all gradients at the same parameters") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    CAPTURE(seed);
    const wiring wired{.bound = 0};
    std::map<std::uint64_t, std::vector<at::Tensor>> used, gradients;  // by step
    auto options = pumped(wired);
    options.bring = [&, bring = options.bring](std::uint32_t rank, std::uint64_t step, const at::Tensor& last) {
      auto made = bring(rank, step, last);
      used[step].push_back(last.defined() ? last : at::zeros({176}));
      gradients[step].push_back(made.piece.values);
      return made;
    };
    exchange_pump pump{options};
    pump.run(seed);
    auto x = at::zeros({176});
    for (std::uint64_t step = 0; step < wired.steps; ++step) {
      REQUIRE(used[step].size() == wired.workers);
      for (const auto& one : used[step]) CHECK(one.equal(used[step].front()));
      CHECK(at::allclose(used[step].front(), x, 1e-4, 1e-5));
      for (const auto& gradient : gradients[step]) x = x - 0.125 * gradient;
    }
    CHECK(at::allclose(pump.held(wired.workers, wired.steps).piece.values, x, 1e-4, 1e-5));
  }
}

}  // namespace bounded_staleness_test
