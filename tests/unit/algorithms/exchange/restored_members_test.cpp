// Members that are made again from their states in the middle of a run: the rest of the run does not change.
#include "tests/support/doctest.hpp"
#include "tests/support/exchange_pump.hpp"

#include "troupe/algorithms/exchange/around/buckets.hpp"
#include "troupe/algorithms/exchange/around/group.hpp"
#include "troupe/algorithms/exchange/registry.hpp"
#include "troupe/algorithms/training/optimizer.hpp"

#include <ATen/ops/zeros.h>

#include <memory>
#include <string>
#include <vector>

namespace restored_members_test {

namespace {

using namespace troupe;
using namespace troupe::testing;

struct wiring {
  std::string kind;
  setting_values settings;
  slot sends{slot::gradient};
  std::uint32_t servers{0};
  cadence due{};
};

constexpr std::uint32_t workers = 3;
constexpr std::uint64_t half = 4, whole = 9;

std::unique_ptr<member> make(const wiring& wired, const optimizer_options& optimizer, rank_id rank,
                             std::shared_ptr<const state_dict> restored) {
  return find_exchange(wired.kind)
      ->make_member({.among = {.rank = rank, .world_size = workers, .servers = wired.servers},
                     .first_step = restored ? half : 0,
                     .layout = three_parameters(),
                     .settings = wired.settings,
                     .due = wired.due,
                     .when = {.steps = whole, .steps_per_epoch = 3, .evaluate_every = 2},
                     .optimizer = optimizer,
                     .initial = at::zeros({176}),
                     .restored = std::move(restored)});
}

exchange_pump::options pumped(const wiring& wired, const optimizer_options& optimizer) {
  return {.workers = workers,
          .servers = wired.servers,
          .due = wired.due,
          .steps = half,
          .make = [=](rank_id rank) { return make(wired, optimizer, rank, nullptr); },
          .bring =
              [=](std::uint32_t rank, std::uint64_t step, const at::Tensor& last) {
                auto values = noise(176, rank, step);
                if (last.defined()) values += 0.5 * last;
                return part{.what = wired.sends, .piece = {0, values}, .sample_count = 1 + rank};
              },
          .watch = {}};
}

void expect_same(const wiring& wired, const optimizer_options& optimizer, std::uint64_t seed) {
  exchange_pump undisturbed{pumped(wired, optimizer)}, remade{pumped(wired, optimizer)};
  undisturbed.run(seed);
  remade.run(seed);
  undisturbed.extend(whole);
  remade.remake([&](rank_id rank, auto restored) { return make(wired, optimizer, rank, restored); }, whole);
  undisturbed.run(seed + 1);
  remade.run(seed + 1);
  for (std::uint32_t rank = 0; rank < workers; ++rank) CHECK(remade.last(rank).equal(undisturbed.last(rank)));
  for (std::uint32_t i = workers; i < workers + wired.servers; ++i) {
    for (const std::uint64_t step : {std::uint64_t{2}, std::uint64_t{4}, std::uint64_t{6}, whole}) {
      const auto expected = undisturbed.held(i, step), found = remade.held(i, step);
      CHECK(found.piece.values.equal(expected.piece.values));
      CHECK(found.version == expected.version);
      CHECK(found.staleness.counts == expected.staleness.counts);
      CHECK(found.staleness.applied == expected.staleness.applied);
      CHECK(found.staleness.refused == expected.staleness.refused);
    }
  }
}

}  // namespace

TEST_CASE("members that are made again from their states go on as if nothing had happened") {
  const setting_values all{{"apply", std::string{"all"}}, {"shards", std::int64_t{2}}};
  const setting_values each{{"apply", std::string{"each"}}, {"shards", std::int64_t{2}}};
  const setting_values bounded{
      {"apply", std::string{"each"}}, {"shards", std::int64_t{1}}, {"staleness_bound", std::int64_t{1}}};
  const setting_values first{{"apply", std::string{"first"}}, {"shards", std::int64_t{1}}, {"first", std::int64_t{2}}};
  const cadence late = make_cadence(2, true), early = make_cadence(3, false, true);
  const std::vector<wiring> wirings{
      {"parameter_server", all, slot::gradient, 2},
      {"parameter_server", each, slot::gradient, 2},
      {"parameter_server", bounded, slot::gradient, 1},
      {"parameter_server", first, slot::gradient, 1},
      {"elastic", {{"apply", std::string{"all"}}, {"alpha", 0.25}}, slot::parameters, 1, late},
      {"elastic", {{"apply", std::string{"each"}}, {"alpha", 0.25}}, slot::parameters, 1, early},
      {"all_reduce", {{"route", std::string{"ring"}}}, slot::gradient, 0},
      {"star", {{"send", std::string{"whole"}}}, slot::gradient, 0}};
  const std::vector<optimizer_options> optimizers{
      {.lr = 0.125, .momentum = 0.9, .nesterov = true}, {.name = "adam", .lr = 0.01}, {.lr = 0.125, .clip_norm = 0.5}};
  for (const auto& wired : wirings) {
    for (const auto& optimizer : optimizers) {
      if (optimizer.clip_norm && wired.servers > 1) continue;
      for (std::uint64_t seed = 0; seed < 25; ++seed) {
        CAPTURE(wired.kind);
        CAPTURE(optimizer.name);
        CAPTURE(seed);
        expect_same(wired, optimizer, 2 * seed);
      }
    }
  }
}

TEST_CASE("a state that does not fit is refused") {
  const wiring wired{
      "parameter_server", {{"apply", std::string{"all"}}, {"shards", std::int64_t{1}}}, slot::gradient, 1};
  const auto server = make(wired, {.lr = 0.1}, rank_id{workers}, nullptr);
  const auto state = server->state();
  for (const auto& [left_out, values] : state.entries()) {
    CAPTURE(left_out);
    auto rest = std::make_shared<state_dict>();
    for (const auto& [name, one] : state.entries())
      if (name != left_out) rest->put(name, one);
    CHECK_THROWS_AS(make(wired, {.lr = 0.1}, rank_id{workers}, rest), state_error);
  }
}

}  // namespace restored_members_test
