// Elastic averaging as a state machine: closed forms, any order of arrival, and its numbered invariants under random
// schedules.
#include "troupe/algorithms/rules/elastic.hpp"

#include "tests/support/doctest.hpp"
#include "tests/support/exchange_pump.hpp"

#include "troupe/algorithms/exchange/registry.hpp"

#include <ATen/ops/allclose.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <tuple>

namespace elastic_test {

namespace {

using namespace troupe;
using namespace troupe::testing;

struct wiring {
  std::string apply{"all"};
  std::uint32_t workers{1};
  std::optional<double> alpha{0.25};
  schedule when{.steps = 4};
  models::flat_layout layout{three_parameters()};
  cadence due{};
};

setting_values settings_of(const wiring& wired) {
  setting_values result{{"apply", wired.apply}};
  if (wired.alpha) result["alpha"] = *wired.alpha;
  return result;
}

at::Tensor initial(const wiring& wired) {
  return noise(wired.layout.total, 1000, 0);
}

std::unique_ptr<member> make(const wiring& wired, rank_id rank) {
  return find_exchange("elastic")->make_member(
      {.among = {.rank = rank, .world_size = wired.workers, .servers = 1, .ids = {}},
       .layout = wired.layout,
       .pool = {},
       .settings = settings_of(wired),
       .due = wired.due,
       .when = wired.when,
       .optimizer = {},
       .initial = initial(wired)});
}

/// Returns the position from which a worker contributes, given its position after its last move.
at::Tensor position(const at::Tensor& x, std::uint32_t rank, std::uint64_t step) {
  return x - 0.125 * noise(x.numel(), rank, step);
}

/// Returns a pump for apply = "all". With apply = "each", answers are changes, so the last answer is not a worker's x.
exchange_pump::options pumped(const wiring& wired) {
  return {.workers = wired.workers,
          .servers = 1,
          .due = wired.due,
          .steps = wired.when.steps,
          .elements = wired.layout.parameter_end,
          .make = [wired](rank_id rank) { return make(wired, rank); },
          .bring =
              [wired](std::uint32_t rank, std::uint64_t step, const at::Tensor& last) {
                return part{.what = slot::parameters,
                            .piece = {0, position(last.defined() ? last : initial(wired), rank, step)},
                            .sample_count = 1};
              },
          .watch = {}};
}

/// Centres after each round and workers after the last one, according to the equations.
struct reference {
  std::vector<at::Tensor> centres, workers;
  std::vector<std::uint64_t> stamps;
};

reference follow(const wiring& wired) {
  models::buffer_pool pool;
  const auto alpha = wired.alpha.value_or(0.9 / wired.workers);
  reference result;
  result.centres = {initial(wired)};
  result.workers.assign(wired.workers, initial(wired));
  for (auto stamp = wired.due.next_due(0); stamp - wired.due.lead < wired.when.steps;
       stamp = wired.due.next_due(stamp + 1)) {
    const auto centre = result.centres.back();
    std::vector<at::Tensor> positions;
    for (std::uint32_t rank = 0; rank < wired.workers; ++rank) {
      positions.push_back(position(result.workers[rank], rank, stamp));
      result.workers[rank] = rules::pulled_to_centre(positions.back(), centre, alpha, pool);
    }
    result.centres.push_back(rules::moved_centre(centre, positions, alpha, pool));
    result.stamps.push_back(stamp);
  }
  return result;
}

/// Returns the centre after all rounds of the iterations before `step`.
at::Tensor centre_at(const reference& exact, const wiring& wired, std::uint64_t step) {
  std::size_t rounds = 0;
  while (rounds < exact.stamps.size() && exact.stamps[rounds] - wired.due.lead < step) ++rounds;
  return exact.centres[rounds];
}

part constant(std::uint32_t sender, std::uint64_t step, float value, std::uint64_t version = 0) {
  return {.origin = {.sender = rank_id{sender}, .step = step, .version = version},
          .what = slot::parameters,
          .piece = {0, at::full({16}, value)},
          .total = 16,
          .sample_count = 1};
}

/// Makes a centre that begins at 8.
std::unique_ptr<member> centre_of_eight(const std::string& apply, std::uint32_t workers, double alpha) {
  return find_exchange("elastic")->make_member(
      {.among = {.rank = rank_id{workers}, .world_size = workers, .servers = 1, .ids = {}},
       .layout = one_parameter(),
       .pool = {},
       .settings = {{"apply", apply}, {"alpha", alpha}},
       .when = {.steps = 9},
       .optimizer = {},
       .initial = at::full({16}, 8.0F)});
}

at::Tensor held(member& server_side, std::uint64_t step) {
  return server_side.held(step)->piece.values;
}

/// Checks EL-1 to EL-6 from outside, at every delivery.
class checker {
 public:
  explicit checker(const wiring& wired) : wired_(wired), centre_(initial(wired)) {}

  void operator()(std::uint32_t to, const part& given, const sendings& sent) {
    if (to < wired_.workers) return;
    CHECK(taken_.emplace(given.origin.sender, given.origin.step).second);  // EL-2
    const auto each = wired_.apply == "each";
    if (each) {
      CHECK(sent.size() == 1);  // EL-3
      CHECK(sent.front().second.what == slot::change);
      const auto force = 0.25F * (given.piece.values - centre_);
      CHECK(sent.front().second.piece.values.equal(-force));  // EL-5
      centre_ = centre_ + force;
      ++version_;
    }
    for (const auto& [worker, answer] : sent) {
      CHECK(answered_.emplace(rank_id{worker}, answer.origin.step).second);  // EL-3
      CHECK(taken_.count({rank_id{worker}, answer.origin.step}) == 1);
      if (each) CHECK(answer.origin.version == version_);  // EL-1
      if (!each) {
        const auto& first = rounds_.try_emplace(answer.origin.step, answer).first->second;
        CHECK(first.piece.values.is_same(answer.piece.values));                                      // EL-4
        CHECK(answer.origin.version == (answer.origin.step - wired_.due.first) / wired_.due.every);  // EL-1
      }
      frozen_.emplace_back(answer.piece.values, answer.piece.values.clone());
    }
  }

  const at::Tensor& centre() const { return centre_; }

  void finish() const {
    CHECK((answered_ == taken_));                                      // EL-3
    for (const auto& [then, copy] : frozen_) CHECK(then.equal(copy));  // EL-6
  }

 private:
  wiring wired_;
  at::Tensor centre_;
  std::uint64_t version_{0};
  std::set<std::pair<rank_id, std::uint64_t>> taken_, answered_;
  std::map<std::uint64_t, part> rounds_;
  std::vector<std::pair<at::Tensor, at::Tensor>> frozen_;
};

}  // namespace

TEST_CASE("the elastic rules are their formulas") {
  models::buffer_pool pool;
  const auto at_values = [](float value) { return at::full({5}, value); };
  CHECK(all_are(rules::pulled_to_centre(at_values(12), at_values(8), 0.25, pool), 11));
  CHECK(all_are(rules::moved_centre(at_values(8), {at_values(12), at_values(4), at_values(16)}, 0.25, pool), 10));
  const auto visit = rules::visited_centre(at_values(8), at_values(12), 0.25, pool);
  CHECK(all_are(visit.centre, 9));
  CHECK(all_are(visit.change, -1));
}

TEST_CASE("the centre is folded in the order of the workers, in blocks too") {
  models::buffer_pool pool;
  const auto centre = noise(5'000, 1, 1);
  const std::vector<at::Tensor> positions{noise(5'000, 2, 1), noise(5'000, 3, 1), noise(5'000, 4, 1)};
  const auto moved = rules::moved_centre(centre, positions, 0.3, pool);
  for (const std::int64_t i : {0, 2'047, 2'048, 4'999}) {
    const auto value = [&](const at::Tensor& from) { return from.const_data_ptr<float>()[i]; };
    const float first = value(positions[0]) - value(centre);
    const float second = value(positions[1]) - value(centre);
    const float third = value(positions[2]) - value(centre);
    const float pair = first + second;
    const float sum = pair + third;
    const float force = 0.3F * sum;
    CHECK(value(moved) == value(centre) + force);
  }
}

TEST_CASE("with α = 1/n the centre is the mean of the workers") {
  const wiring wired{.workers = 4, .alpha = 0.25, .when = {.steps = 1}};
  exchange_pump pump{pumped(wired)};
  pump.run(1);
  auto mean = at::zeros({176});
  for (std::uint32_t rank = 0; rank < 4; ++rank) mean += 0.25 * position(initial(wired), rank, 0);
  CHECK(at::allclose(held(pump.at(4), 1), mean, 0, 1e-6));
}

TEST_CASE("a round of all moves everybody from the values before the move") {
  const auto one = centre_of_eight("all", 2, 0.25);
  kept out;
  one->receive(constant(1, 0, 16), out);
  REQUIRE(out.sent.size() == 1);  // at once: the previous round is complete
  CHECK(all_are(out.sent[0].second.piece.values, 8));
  CHECK((one->waiting_for(0) == std::vector<rank_id>{rank_id{0}}));
  one->receive(constant(1, 1, 24), out);  // belongs to the next round: kept
  CHECK(out.sent.size() == 1);
  CHECK(all_are(held(*one, 0), 8));
  one->receive(constant(0, 0, 4), out);  // 8 + (8 − 4)/4 = 9
  REQUIRE(out.sent.size() == 3);
  CHECK(out.sent[1].first == rank_id{0});
  CHECK(all_are(out.sent[1].second.piece.values, 8));
  CHECK(out.sent[1].second.origin.version == 0);
  CHECK(out.sent[2].first == rank_id{1});
  CHECK(all_are(out.sent[2].second.piece.values, 9));
  CHECK(out.sent[2].second.origin.version == 1);
  CHECK(out.sent[2].second.origin.step == 1);
  CHECK(all_are(held(*one, 1), 9));
  CHECK((one->waiting_for(1) == std::vector<rank_id>{rank_id{0}}));
}

TEST_CASE("workers that come one by one move the centre in their order") {
  const auto one = centre_of_eight("each", 2, 0.5);
  kept out;
  const auto gives = [&](const part& piece, float change, float centre, std::uint64_t version) {
    one->receive(piece, out);
    const auto& [to, answer] = out.sent.back();
    CHECK(to == piece.origin.sender);
    CHECK(answer.what == slot::change);
    CHECK(answer.at == stage::result);
    CHECK(answer.origin.sender == rank_id{2});
    CHECK(answer.origin.step == piece.origin.step);
    CHECK(answer.origin.version == version);
    CHECK(all_are(answer.piece.values, change));
    CHECK(all_are(held(*one, 0), centre));
  };
  gives(constant(1, 0, 16), -4, 12, 1);
  gives(constant(1, 1, 4), 4, 8, 2);
  gives(constant(0, 0, -8), 8, 0, 3);
  CHECK(one->waiting_for(0).empty());
}

TEST_CASE("a worker moves to x - α(x - centre) where all answer, and hands on the change where each does") {
  kept out;
  const auto wired = [](const std::string& apply) {
    return wiring{.apply = apply, .workers = 2, .alpha = std::nullopt, .layout = one_parameter()};
  };
  auto answer = constant(2, 0, 6);
  answer.at = stage::result;
  const auto all = make(wired("all"), rank_id{1});
  all->contribute(constant(1, 0, 16), out);
  CHECK((all->waiting_for(0) == std::vector<rank_id>{rank_id{2}}));
  all->receive(answer, out);
  CHECK(all->waiting_for(0).empty());
  CHECK(out.answers.back().what == slot::parameters);
  CHECK(all_are(out.answers.back().piece.values, 16 - 0.45F * 10));  // α = 0.9/2

  const auto each = make(wired("each"), rank_id{1});
  each->contribute(constant(1, 0, 16), out);
  answer.what = slot::change;
  each->receive(answer, out);
  CHECK(out.answers.back().what == slot::change);
  CHECK(all_are(out.answers.back().piece.values, 6));
}

TEST_CASE("one worker alone goes the same way, bit for bit, whether all are waited for or each is served") {
  models::buffer_pool pool;
  const auto x = noise(176, 1, 0), centre = noise(176, 2, 0);
  const auto visit = rules::visited_centre(centre, x, 0.9, pool);
  CHECK(rules::pulled_to_centre(x, centre, 0.9, pool).equal(x + visit.change));
  CHECK(rules::moved_centre(centre, {x}, 0.9, pool).equal(visit.centre));
}

TEST_CASE("any order of arrival gives all the same bits, and what is asked for is exact though workers race ahead") {
  std::uint64_t late = 0;
  for (std::uint64_t seed = 1; seed <= 1'000; ++seed) {
    CAPTURE(seed);
    wiring wired{.workers = static_cast<std::uint32_t>(1 + seed % 4),
                 .alpha = seed % 2 == 0 ? std::optional{0.25} : std::nullopt,
                 .when = {.steps = 9, .steps_per_epoch = 4, .evaluate_every = 3}};
    wired.due = make_cadence(1 + seed / 4 % 3, seed % 8 < 4);
    const auto exact = follow(wired);
    checker check{wired};
    auto options = pumped(wired);
    options.watch = std::ref(check);
    exchange_pump pump{options};
    const auto centre = wired.workers;
    std::uint64_t asked = 0;
    const auto ask = [&](std::uint64_t step) {
      asked = step;
      const auto then = held(pump.at(centre), step);
      CHECK(then.equal(centre_at(exact, wired, step)));
      if (!then.is_same(held(pump.at(centre), step))) ++late;  // it was kept, because the centre has moved on since
    };
    pump.run(seed, [&](data::random_stream& random) {
      const auto next = wired.when.next_milestone(asked);
      if (asked < 9 && pump.completed_by_all() >= next && random.below(6) == 0) ask(next);
    });
    while (asked < 9) ask(wired.when.next_milestone(asked));
    check.finish();
    CHECK(pump.completed_by_all() == 9);
    for (std::uint32_t rank = 0; rank < wired.workers; ++rank) {
      CHECK(pump.last(rank).equal(exact.workers[rank]));
      CHECK(pump.at(rank).waiting_for(9).empty());
    }
    const auto now = pump.at(centre).held(9).value();
    CHECK(now.version == exact.stamps.size());
    CHECK(now.staleness.applied == 0);
    CHECK(pump.at(centre).waiting_for(9).empty());
  }
  CHECK(late > 50);
}

TEST_CASE("thousands of schedules of workers served one by one keep the invariants") {
  for (std::uint64_t seed = 1; seed <= 1'000; ++seed) {
    CAPTURE(seed);
    const auto nature = nature_of(*find_exchange("elastic"), settings_of({.apply = "each"}));
    const auto every = 1 + seed / 4 % 3;
    const wiring wired{.apply = "each",
                       .workers = static_cast<std::uint32_t>(1 + seed % 4),
                       .when = {.steps = 5},
                       .layout = one_parameter(),
                       .due = make_cadence(every, false, nature.due_from_start)};
    checker check{wired};
    auto options = pumped(wired);
    options.watch = std::ref(check);
    exchange_pump pump{options};
    pump.run(seed);
    check.finish();
    const auto now = pump.at(wired.workers).held(5).value();
    CHECK(now.version == (5 + every - 1) / every * wired.workers);  // before the steps 0, τ, 2τ … below 5
    CHECK(now.piece.values.equal(check.centre()));
  }
}

TEST_CASE("the centre refuses what comes twice, out of turn, two rounds ahead, or as something else") {
  kept out;
  for (const auto* apply : {"all", "each"}) {
    CAPTURE(apply);
    const auto made = [&] { return centre_of_eight(apply, 2, 0.25); };
    const auto one = made();
    one->receive(constant(0, 0, 1), out);
    CHECK(code_of(*one, constant(0, 0, 1)) == errc::stale);
    CHECK(code_of(*made(), constant(0, 1, 1)) == errc::mismatch);
    CHECK(code_of(*made(), constant(0, 0, 1, 1)) == errc::mismatch);
    CHECK(code_of(*made(), constant(2, 0, 1)) == errc::mismatch);
    const auto changed = [&](const auto& change) {
      auto wrong = constant(0, 0, 1);
      change(wrong);
      return code_of(*made(), wrong);
    };
    CHECK(changed([](part& wrong) { wrong.at = stage::result; }) == errc::mismatch);
    CHECK(changed([](part& wrong) { wrong.what = slot::gradient; }) == errc::mismatch);
    CHECK(changed([](part& wrong) { wrong.which.part = 1; }) == errc::mismatch);
    CHECK(changed([](part& wrong) { wrong.piece.values = at::ones({15}); }) == errc::mismatch);
  }
  const auto all = centre_of_eight("all", 2, 0.25);
  all->receive(constant(0, 0, 1), out);
  all->receive(constant(0, 1, 1), out);
  CHECK(code_of(*all, constant(0, 1, 1)) == errc::stale);
  CHECK(code_of(*all, constant(0, 2, 1)) == errc::mismatch);
}

TEST_CASE("a worker's side refuses what the centre cannot have answered") {
  kept out;
  for (const auto* apply : {"all", "each"}) {
    CAPTURE(apply);
    const wiring wired{.apply = apply, .workers = 2, .layout = one_parameter()};
    const auto made = [&] {
      auto one = make(wired, rank_id{1});
      one->contribute(constant(1, 0, 1), out);
      return one;
    };
    auto answer = constant(2, 0, 6, 1);
    answer.at = stage::result;
    if (std::string{apply} == "each") answer.what = slot::change;
    const auto changed = [&](const auto& change) {
      auto wrong = answer;
      change(wrong);
      return code_of(*made(), wrong);
    };
    CHECK(changed([](part& wrong) { wrong.origin.sender = rank_id{0}; }) == errc::mismatch);
    CHECK(changed([](part& wrong) { wrong.at = stage::contribution; }) == errc::mismatch);
    CHECK(changed([](part& wrong) { wrong.what = slot::gradient; }) == errc::mismatch);
    CHECK(changed([](part& wrong) { wrong.piece.values = at::ones({15}); }) == errc::mismatch);
    CHECK(changed([](part& wrong) { wrong.origin.step = 1; }) == errc::stale);
    CHECK(code_of(*make(wired, rank_id{1}), answer) == errc::stale);
    const auto one = made();
    CHECK_THROWS_AS(one->contribute(constant(1, 1, 1), out), exchange_error);
    one->receive(answer, out);
    CHECK(code_of(*one, answer) == errc::stale);
    one->contribute(constant(1, 1, 1), out);
    auto older = answer;
    older.origin = {.sender = rank_id{2}, .step = 1, .version = 0};
    CHECK(code_of(*one, older) == errc::mismatch);
  }
}

TEST_CASE("the plan knows the traffic of elastic averaging") {
  const wiring wired{.workers = 3, .when = {.steps = 1}};
  exchange_pump pump{pumped(wired)};
  pump.run(1);
  check_traffic(pump, find_exchange("elastic")->edges(3, wired.layout, settings_of(wired)));
  const auto nature = nature_of(*find_exchange("elastic"), settings_of(wired));
  CHECK(nature.servers == 1);
  CHECK(nature.deterministic);
  CHECK_FALSE(nature.same_for_all);
  const auto each = nature_of(*find_exchange("elastic"), settings_of({.apply = "each"}));
  CHECK_FALSE(each.deterministic);
  CHECK(each.due_from_start);  // algorithm 1, where t starts at 0
  CHECK_FALSE(nature.due_from_start);
}

namespace {

/// Returns the distance between the workers' mean and the centre after rounds without steps, relative to the distance
/// before them.
double distance_after(std::uint64_t rounds, const std::string& apply, std::uint32_t workers, double alpha) {
  const wiring wired{
      .apply = apply, .workers = workers, .alpha = alpha, .when = {.steps = rounds}, .layout = one_parameter()};
  std::vector<at::Tensor> positions;
  for (std::uint32_t rank = 0; rank < workers; ++rank) positions.push_back(at::full({16}, 2.0F + rank));
  auto options = pumped(wired);
  options.bring = [&](std::uint32_t rank, std::uint64_t, const at::Tensor& last) {
    auto& x = positions[rank];
    if (last.defined()) x = apply == "all" ? last : x + last;  // "each" answers with a change
    return part{.what = slot::parameters, .piece = {0, x}, .sample_count = 1};
  };
  const auto before = (0.5 * workers + 1.5) - initial(wired)[0].item<double>();
  exchange_pump pump{options};
  pump.run(1);
  auto mean = at::zeros({16});
  for (std::uint32_t rank = 0; rank < workers; ++rank)
    mean += (apply == "all" ? pump.last(rank) : positions[rank] + pump.last(rank)) / static_cast<double>(workers);
  return (mean - held(pump.at(workers), rounds))[0].item<double>() / before;
}

}  // namespace

TEST_CASE("each round of all multiplies the distance to the centre by 1 − (n + 1)α: 2/(n + 1) is too much") {
  const auto* kind = find_exchange("elastic");
  for (const std::uint32_t n : {1U, 2U, 4U, 16U}) {
    CAPTURE(n);
    const double bound = 2.0 / (n + 1);
    CHECK(distance_after(20, "all", n, 0.9 * bound) == doctest::Approx(std::pow(-0.8, 20)).epsilon(1e-3));
    CHECK(distance_after(200, "all", n, 0.99 * bound) == doctest::Approx(std::pow(-0.98, 200)).epsilon(1e-2));
    CHECK(distance_after(200, "all", n, bound) == doctest::Approx(1).epsilon(1e-2));
    CHECK(distance_after(200, "all", n, 1.01 * bound) == doctest::Approx(std::pow(-1.02, 200)).epsilon(1e-2));
    const auto is_refused = [&](const std::string& apply, double alpha) {
      const auto found = kind->check(std::vector<std::string>(n, "w"), {{"apply", apply}, {"alpha", alpha}});
      if (found) CHECK(found->text.find("expected less than 2/(n + 1) = ") != std::string::npos);
      return found.has_value();
    };
    CHECK_FALSE(is_refused("all", std::nextafter(bound, 0)));
    CHECK(is_refused("all", bound));
    CHECK(is_refused("all", std::nextafter(bound, 2)));
    CHECK_FALSE(is_refused("each", 0.99));
  }
}

TEST_CASE("workers that come one by one approach the centre with any α below 1") {
  for (const std::uint32_t n : {1U, 2U, 4U, 16U})
    for (const double alpha : {0.5, 0.9, 0.99}) CHECK(std::abs(distance_after(2'000, "each", n, alpha)) < 1e-3);
}

}  // namespace elastic_test
