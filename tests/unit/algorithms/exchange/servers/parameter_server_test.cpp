// The parameter server as a state machine, and its numbered invariants under random schedules.
#include "tests/support/doctest.hpp"
#include "tests/support/exchange_pump.hpp"

#include "troupe/algorithms/exchange/registry.hpp"
#include "troupe/algorithms/rules/reduce.hpp"

#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include <set>
#include <string>
#include <tuple>

namespace parameter_server_test {

namespace {

using namespace troupe;
using namespace troupe::testing;

struct wiring {
  std::string apply{"all"};
  std::uint32_t shards{1};
  std::uint32_t workers{1};
  models::flat_layout layout{three_parameters()};
  optimizer_options optimizer{.lr = 0.125, .momentum = 0.9, .weight_decay = 0.01};
  schedule when{.steps = 4};
};

setting_values settings_of(const wiring& wired) {
  return {{"apply", wired.apply}, {"shards", static_cast<std::int64_t>(wired.shards)}};
}

at::Tensor initial(const wiring& wired) {
  return noise(wired.layout.total, 1000, 0);
}

std::unique_ptr<member> make(const wiring& wired, rank_id rank) {
  return find_exchange("parameter_server")
      ->make_member({.among = {.rank = rank, .world_size = wired.workers, .servers = wired.shards, .ids = {}},
                     .layout = wired.layout,
                     .pool = {},
                     .settings = settings_of(wired),
                     .when = wired.when,
                     .optimizer = wired.optimizer,
                     .initial = initial(wired)});
}

/// A gradient that depends on the parameters it is computed from, so that a wrong version is detected.
at::Tensor gradient_at(const at::Tensor& x, std::uint32_t rank, std::uint64_t step) {
  return noise(x.numel(), rank, step) + 0.5 * x;
}

exchange_pump::options pumped(const wiring& wired) {
  return {.workers = wired.workers,
          .servers = wired.shards,
          .steps = wired.when.steps,
          .elements = wired.layout.parameter_end,
          .make = [wired](rank_id rank) { return make(wired, rank); },
          .bring =
              [wired](std::uint32_t rank, std::uint64_t step, const at::Tensor& last) {
                const auto x = last.defined() ? last : initial(wired);
                return part{.piece = {0, gradient_at(x, rank, step)}, .sample_count = 1 + rank};
              },
          .watch = {}};
}

/// Returns x after each step of synchronous SGD, starting with x₀.
std::vector<at::Tensor> trajectory(const wiring& wired) {
  models::buffer_pool pool;
  const auto engine = make_optimizer(wired.optimizer);
  std::vector<at::Tensor> xs{initial(wired)};
  for (std::uint64_t step = 0; step < wired.when.steps; ++step) {
    std::vector<rules::weighted> gradients;
    for (std::uint32_t rank = 0; rank < wired.workers; ++rank)
      gradients.push_back({gradient_at(xs.back(), rank, step), static_cast<double>(1 + rank)});
    const auto next = xs.back().clone();
    engine->step(next, rules::mean_in_order(gradients, pool), 1, step);
    xs.push_back(next);
  }
  return xs;
}

/// Concatenates the shards that the servers hold.
at::Tensor held(exchange_pump& pump, const wiring& wired, std::uint64_t step) {
  std::vector<at::Tensor> pieces;
  for (std::uint32_t shard = 0; shard < wired.shards; ++shard)
    if (const auto now = pump.held(wired.workers + shard, step); now.piece.values.defined())
      pieces.push_back(now.piece.values);
  return at::cat(pieces);
}

/// Returns a gradient in which every element is `value`, for results that are worked out by hand.
part plain(std::uint32_t sender, std::uint64_t step, std::uint64_t version, float value) {
  return {.origin = {.sender = rank_id{sender}, .step = step, .version = version},
          .piece = {0, at::full({16}, value)},
          .total = 16,
          .sample_count = 1};
}

wiring by_hand(const std::string& apply, std::uint32_t workers) {
  return {.apply = apply, .workers = workers, .layout = one_parameter(), .optimizer = {.lr = 0.5}};
}

/// Checks PS-1 to PS-5 from outside, at every delivery.
class checker {
 public:
  explicit checker(const wiring& wired) : wired_(wired), versions_(wired.shards, 0) {}

  void operator()(std::uint32_t to, const part& given, const sendings& sent) {
    if (to < wired_.workers) return;
    auto& version = versions_[to - wired_.workers];
    CHECK(taken_.emplace(to, given.origin.sender, given.origin.step).second);  // PS-2
    CHECK(given.origin.version <= version);                                    // PS-4
    const auto each = wired_.apply == "each";
    if (!each) CHECK(given.origin.version == version);  // PS-4
    if (each) CHECK(sent.size() == 1);                  // PS-3
    if (sent.empty()) return;
    version += 1;
    if (!each) CHECK(sent.size() == wired_.workers);
    for (const auto& [worker, answer] : sent) {
      CHECK(answer.origin.version == version);  // PS-1
      const auto whose = std::tuple{to, rank_id{worker}, answer.origin.step};
      CHECK(taken_.count(whose) == 1);
      CHECK(answered_.insert(whose).second);  // PS-3
      frozen_.emplace_back(answer.piece.values, answer.piece.values.clone());
    }
  }

  void finish() const {
    CHECK((answered_ == taken_));                                      // PS-3
    for (const auto& [then, copy] : frozen_) CHECK(then.equal(copy));  // PS-5
  }

 private:
  wiring wired_;
  std::vector<std::uint64_t> versions_;
  std::set<std::tuple<std::uint32_t, rank_id, std::uint64_t>> taken_, answered_;
  std::vector<std::pair<at::Tensor, at::Tensor>> frozen_;
};

}  // namespace

TEST_CASE("stepping after all is synchronous SGD, bit for bit, in any order of arrival and with any number of shards") {
  for (const std::uint32_t n : {1U, 2U, 3U, 5U}) {
    const auto expected = trajectory({.workers = n}).back();
    for (const std::uint32_t shards : {1U, 2U, 3U, 4U}) {
      const wiring wired{.shards = shards, .workers = n};
      for (std::uint64_t seed = 1; seed < 6; ++seed) {
        CAPTURE(n);
        CAPTURE(shards);
        CAPTURE(seed);
        exchange_pump pump{pumped(wired)};
        pump.run(seed);
        CHECK(pump.completed_by_all() == 4);
        for (std::uint32_t rank = 0; rank < n; ++rank) CHECK(pump.last(rank).equal(expected));
        CHECK(held(pump, wired, 4).equal(expected));
      }
    }
  }
}

TEST_CASE("stepping after each with one worker is plain SGD, with no staleness") {
  const wiring wired{.apply = "each", .shards = 2};
  exchange_pump pump{pumped(wired)};
  pump.run(1);
  CHECK(pump.last(0).equal(trajectory(wired).back()));
  const auto now = pump.held(1, 4);
  CHECK(now.version == 4);
  CHECK((now.staleness.counts == std::vector<std::uint64_t>{4}));
}

TEST_CASE("asynchronous steps follow the order of arrival, and their staleness is counted") {
  const auto wired = by_hand("each", 2);  // lr 0.5, all gradients constant: x falls by half the gradient
  const auto x = initial(wired);
  const auto server = make(wired, rank_id{2});
  kept out;
  const auto falls_to = [&](const part& gradient, float fall, std::uint64_t version) {
    server->receive(gradient, out);
    const auto& [to, answer] = out.sent.back();
    CHECK(to == gradient.origin.sender);
    CHECK(answer.origin.sender == rank_id{2});
    CHECK(answer.origin.step == gradient.origin.step);
    CHECK(answer.origin.version == version);
    CHECK(answer.at == stage::result);
    CHECK(answer.what == slot::parameters);
    CHECK(at::allclose(x - answer.piece.values, at::full({16}, fall), 0, 1e-6));
  };
  falls_to(plain(0, 0, 0, 1), 0.5F, 1);   // a gradient of version 0 at version 0
  falls_to(plain(0, 1, 1, 2), 1.5F, 2);   // of version 1 at 1
  falls_to(plain(1, 0, 0, 4), 3.5F, 3);   // of version 0 at 2: two updates behind
  falls_to(plain(0, 2, 2, 8), 7.5F, 4);   // of version 2 at 3
  falls_to(plain(1, 1, 3, -2), 6.5F, 5);  // of version 3 at 4
  const auto now = server->held(1).value();
  CHECK(now.version == 5);
  CHECK(now.piece.first == 0);
  CHECK((now.staleness.counts == std::vector<std::uint64_t>{2, 2, 1}));
  CHECK(now.staleness.applied == 5);
  CHECK(now.staleness.sum == 4);
  CHECK(now.staleness.most == 2);
}

TEST_CASE("a forced order of two asynchronous workers gives one written-out sequence, over two shards too") {
  for (const std::uint32_t shards : {1U, 3U}) {
    const wiring wired{.apply = "each", .shards = shards, .workers = 2, .when = {.steps = 2}};
    exchange_pump pump{pumped(wired)};
    const auto round_trip = [&](std::uint32_t rank) {
      for (std::uint32_t shard = 0; shard < shards; ++shard) pump.deliver(rank, 2 + shard);
      for (std::uint32_t shard = 0; shard < shards; ++shard) pump.deliver(2 + shard, rank);
    };
    pump.contribute(0);
    pump.contribute(1);
    round_trip(1);
    pump.contribute(1);
    round_trip(1);
    round_trip(0);

    const auto engine = make_optimizer(wired.optimizer);
    const auto x0 = initial(wired);
    const auto step = [&](const at::Tensor& from, const at::Tensor& gradient) {
      auto next = from.clone();
      engine->step(next, gradient, 1, 0);
      return next;
    };
    const auto x1 = step(x0, gradient_at(x0, 1, 0));
    const auto x2 = step(x1, gradient_at(x1, 1, 1));
    const auto x3 = step(x2, gradient_at(x0, 0, 0));
    CHECK(pump.last(1).equal(x2));
    CHECK(pump.last(0).equal(x3));
    CHECK(held(pump, wired, 1).equal(x3));
    CHECK((pump.held(2, 1).staleness.counts == std::vector<std::uint64_t>{2, 0, 1}));
  }
}

TEST_CASE("weights that do not decay are the same ones however many servers there are") {
  const auto layout = three_parameters();
  const optimizer_options all{.lr = 0.125, .momentum = 0.9, .weight_decay = 0.5};
  for (const std::size_t excluded : {0, 1, 2}) {
    auto some = all;
    some.undecayed = {{layout.parameters[excluded].first, layout.parameters[excluded].count}};
    std::vector<at::Tensor> results;
    for (const std::uint32_t shards : {1U, 2U, 3U}) {
      CAPTURE(excluded);
      CAPTURE(shards);
      const wiring wired{.shards = shards, .workers = 2, .optimizer = some};
      exchange_pump pump{pumped(wired)};
      pump.run(3);
      results.push_back(held(pump, wired, wired.when.steps));
      CHECK(results.back().allclose(trajectory(wired).back(), 1e-6, 1e-6));
      CHECK_FALSE(results.back().allclose(trajectory({.workers = 2, .optimizer = all}).back(), 1e-3, 1e-3));
    }
  }
}

TEST_CASE("thousands of schedules keep the invariants, and what was asked for is exact though workers race ahead") {
  const schedule when{.steps = 5, .steps_per_epoch = 3, .evaluate_every = 2};
  std::map<std::uint32_t, std::vector<at::Tensor>> trajectories;  // by number of workers
  for (const std::uint32_t n : {1U, 2U, 3U, 4U}) trajectories[n] = trajectory({.workers = n, .when = when});
  std::uint64_t late = 0;
  for (const auto* apply : {"all", "each"}) {
    for (std::uint64_t seed = 1; seed <= 1'000; ++seed) {
      CAPTURE(apply);
      CAPTURE(seed);
      const wiring wired{.apply = apply,
                         .shards = static_cast<std::uint32_t>(1 + seed % 3),
                         .workers = static_cast<std::uint32_t>(1 + seed / 3 % 4),
                         .when = when};
      checker check{wired};
      auto options = pumped(wired);
      options.watch = std::ref(check);
      const auto exact = std::string{apply} == "all" ? trajectories[wired.workers] : std::vector<at::Tensor>{};
      exchange_pump pump{options};
      std::uint64_t asked = 0;
      const auto ask = [&](std::uint64_t step) {
        asked = step;
        if (exact.empty()) return;
        const auto then = held(pump, wired, step);
        CHECK(then.equal(exact[step]));
        if (!then.equal(held(pump, wired, step))) ++late;  // it was kept, because the servers have moved on since
      };
      pump.run(seed, [&](data::random_stream& random) {
        const auto next = wired.when.next_milestone(asked);
        if (asked < 5 && pump.completed_by_all() >= next && random.below(8) == 0) ask(next);
      });
      while (asked < 5) ask(wired.when.next_milestone(asked));
      check.finish();
      CHECK(pump.completed_by_all() == 5);
      for (std::uint32_t shard = 0; shard < wired.shards; ++shard) {
        const auto now = pump.held(wired.workers + shard, 5);
        CHECK(now.version == (exact.empty() ? 5 * wired.workers : 5));
        CHECK(now.staleness.applied == 5 * wired.workers);
        if (!exact.empty()) CHECK(now.staleness.sum == 0);
        CHECK(pump.at(wired.workers + shard).waiting_for(5).empty());
      }
    }
  }
  CHECK(late > 100);
}

TEST_CASE("what a milestone's holding says of versions and staleness is of that milestone too") {
  const wiring wired{.workers = 2, .when = {.steps = 4, .steps_per_epoch = 4, .evaluate_every = 2}};
  exchange_pump pump{pumped(wired)};
  pump.run(3);
  const auto then = pump.held(2, 2);  // asked after the end of the run
  CHECK(then.version == 2);
  CHECK(then.staleness.applied == 4);
  CHECK(then.piece.values.equal(trajectory(wired)[2]));
  const auto now = pump.held(2, 4);
  CHECK(now.version == 4);
  CHECK(now.staleness.applied == 8);
}

TEST_CASE("a server refuses what comes twice, too early, of a version to come, or as something else") {
  kept out;
  for (const auto* apply : {"all", "each"}) {
    CAPTURE(apply);
    const auto made = [&] { return make(by_hand(apply, 2), rank_id{2}); };
    const auto one = made();
    one->receive(plain(0, 0, 0, 1), out);
    CHECK(code_of(*one, plain(0, 0, 0, 1)) == errc::stale);
    CHECK(code_of(*made(), plain(0, 1, 0, 1)) == errc::mismatch);  // leaves out step 0
    CHECK(code_of(*made(), plain(0, 0, 1, 1)) == errc::mismatch);  // of a future version
    CHECK(code_of(*made(), plain(2, 0, 0, 1)) == errc::mismatch);  // from a server
    const auto changed = [&](const auto& change) {
      auto wrong = plain(0, 0, 0, 1);
      change(wrong);
      return code_of(*made(), wrong);
    };
    CHECK(changed([](part& wrong) { wrong.at = stage::result; }) == errc::mismatch);
    CHECK(changed([](part& wrong) { wrong.at = stage::partial; }) == errc::mismatch);
    CHECK(changed([](part& wrong) { wrong.what = slot::parameters; }) == errc::mismatch);
    CHECK(changed([](part& wrong) { wrong.which.part = 1; }) == errc::mismatch);
    CHECK(changed([](part& wrong) { wrong.piece.first = 1; }) == errc::mismatch);
    CHECK(changed([](part& wrong) { wrong.piece.values = at::ones({15}); }) == errc::mismatch);
  }
  const auto all = make(by_hand("all", 2), rank_id{2});
  all->receive(plain(0, 0, 0, 1), out);
  CHECK(code_of(*all, plain(0, 1, 0, 1)) == errc::mismatch);  // before the answer to step 0
  all->receive(plain(1, 0, 0, 1), out);
  CHECK(code_of(*all, plain(0, 0, 0, 1)) == errc::stale);
  CHECK(code_of(*all, plain(0, 1, 0, 1)) == errc::mismatch);  // not of the current parameters
}

TEST_CASE("a worker's side refuses what its servers cannot have answered") {
  kept out;
  const auto wired = by_hand("each", 2);
  const auto made = [&] {
    auto one = make(wired, rank_id{1});
    one->contribute(plain(1, 0, 0, 1), out);
    return one;
  };
  auto answer = plain(2, 0, 1, 1);
  answer.at = stage::result;
  answer.what = slot::parameters;
  made()->receive(answer, out);
  const auto changed = [&](const auto& change) {
    auto wrong = answer;
    change(wrong);
    return code_of(*made(), wrong);
  };
  CHECK(changed([](part& wrong) { wrong.origin.sender = rank_id{0}; }) == errc::mismatch);
  CHECK(changed([](part& wrong) { wrong.at = stage::contribution; }) == errc::mismatch);
  CHECK(changed([](part& wrong) { wrong.what = slot::gradient; }) == errc::mismatch);
  CHECK(changed([](part& wrong) { wrong.origin.version = 0; }) == errc::mismatch);
  CHECK(changed([](part& wrong) { wrong.piece.values = at::ones({15}); }) == errc::mismatch);
  CHECK(changed([](part& wrong) { wrong.origin.step = 1; }) == errc::stale);
  CHECK(code_of(*make(wired, rank_id{1}), answer) == errc::stale);  // the worker has not asked for anything
  const auto one = made();
  CHECK_THROWS_AS(one->contribute(plain(1, 1, 0, 1), out), exchange_error);
  one->receive(answer, out);
  CHECK(code_of(*one, answer) == errc::stale);
}

TEST_CASE("a worker waits for the servers that have not answered, a server for the workers of the step under way") {
  const wiring wired{.shards = 3, .workers = 3};
  exchange_pump pump{pumped(wired)};
  CHECK(pump.at(3).waiting_for(0).empty());
  CHECK(pump.at(0).waiting_for(0).empty());
  for (std::uint32_t rank = 0; rank < 3; ++rank) pump.contribute(rank);
  CHECK((pump.at(0).waiting_for(0) == std::vector<rank_id>{rank_id{3}, rank_id{4}, rank_id{5}}));
  pump.deliver(1, 4);
  CHECK((pump.at(4).waiting_for(0) == std::vector<rank_id>{rank_id{0}, rank_id{2}}));
  pump.deliver(0, 4);
  pump.deliver(2, 4);
  CHECK(pump.at(4).waiting_for(0).empty());
  pump.deliver(4, 0);
  CHECK((pump.at(0).waiting_for(0) == std::vector<rank_id>{rank_id{3}, rank_id{5}}));
}

TEST_CASE("servers beyond the number of parameters hold nothing and hear nothing") {
  const wiring wired{.shards = 5, .workers = 2, .when = {.steps = 1}};
  exchange_pump pump{pumped(wired)};
  pump.run(1);
  for (const auto& [between, count] : pump.messages()) {
    CHECK(between.first < 5);
    CHECK(between.second < 5);
  }
  const auto nothing = pump.held(6, 1);
  CHECK_FALSE(nothing.piece.values.defined());
  CHECK(nothing.version == 0);
  CHECK(pump.at(6).waiting_for(0).empty());
  CHECK(code_of(pump.at(6), plain(0, 0, 0, 1)) == errc::mismatch);
}

TEST_CASE("the plan knows the traffic of a parameter server") {
  for (const std::uint32_t shards : {1U, 2U, 3U, 7U}) {
    const wiring wired{.shards = shards, .workers = 3, .when = {.steps = 1}};
    exchange_pump pump{pumped(wired)};
    pump.run(1);
    check_traffic(pump, find_exchange("parameter_server")->edges(3, wired.layout, settings_of(wired)));
    const auto nature = nature_of(*find_exchange("parameter_server"), settings_of(wired));
    CHECK(nature.servers == shards);
    CHECK(nature.deterministic);
  }
  CHECK_FALSE(nature_of(*find_exchange("parameter_server"), settings_of({.apply = "each"})).deterministic);
}

}  // namespace parameter_server_test
