// Exchanges between groups of workers: the tasks of a group's leader, with every kind of exchange inside the group.
#include "troupe/algorithms/exchange/around/group.hpp"

#include "tests/support/doctest.hpp"
#include "tests/support/exchange_pump.hpp"

#include "troupe/algorithms/exchange/registry.hpp"
#include "troupe/algorithms/rules/elastic.hpp"
#include "troupe/algorithms/rules/reduce.hpp"

#include <ATen/ops/allclose.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include <string>

namespace group_test {

namespace {

using namespace troupe;
using namespace troupe::testing;

struct wiring {
  std::string label;
  std::string kind;
  setting_values settings{};
  std::uint32_t servers{0};
  slot what{slot::gradient};
};

const wiring star{"star", "star", {{"send", std::string{"whole"}}}};
const wiring star_by_parameter{"star, by parameter", "star", {{"send", std::string{"parameter"}}}};
const wiring all_reduce{"all_reduce", "all_reduce", {{"route", std::string{"direct"}}}};
const wiring averaging{"averaging", "all_reduce", {{"route", std::string{"auto"}}}, 0, slot::parameters};
const wiring two_shards{
    "parameter_server", "parameter_server", {{"apply", std::string{"all"}}, {"shards", std::int64_t{2}}}, 2};
const wiring two_asynchronous_shards{
    "parameter_server, each", "parameter_server", {{"apply", std::string{"each"}}, {"shards", std::int64_t{2}}}, 2};
const wiring elastic{"elastic", "elastic", {{"apply", std::string{"all"}}, {"alpha", 0.25}}, 1, slot::parameters};
const wiring elastic_each{
    "elastic, each", "elastic", {{"apply", std::string{"each"}}, {"alpha", 0.25}}, 1, slot::parameters};

const wiring gossip{"gossip", "gossip", {{"graph", std::string{"line"}}}, 0, slot::parameters};

const std::vector<wiring> wirings{
    gossip, star, star_by_parameter, all_reduce, averaging, two_shards, two_asynchronous_shards, elastic, elastic_each};

/// Groups of different sizes, not in rank order, one of them with a single worker.
const worker_groups three_groups{{1, 4}, {3}, {0, 2, 5}};

std::uint32_t workers_of(const worker_groups& groups) {
  std::uint32_t count = 0;
  for (const auto& group : groups) count += static_cast<std::uint32_t>(group.size());
  return count;
}

at::Tensor initial() {
  return noise(176, 1000, 0);
}

member_options outer_options(const wiring& wired, const worker_groups& groups, rank_id rank) {
  return {.among = {.rank = rank, .world_size = workers_of(groups), .servers = wired.servers, .ids = {}},
          .layout = three_parameters(),
          .pool = {},
          .settings = wired.settings,
          .when = {.steps = 3, .steps_per_epoch = 3, .evaluate_every = 1},
          .optimizer = {.lr = 0.25, .momentum = 0.5},
          .initial = initial()};
}

group_options grouped(const wiring& wired, const worker_groups& groups, rank_id rank) {
  return {groups, outer_options(wired, groups, rank), find_exchange(wired.kind)->make_member};
}

part contribution_of(const wiring& wired, std::uint32_t rank, std::uint64_t step) {
  return {.origin = {.sender = rank_id{rank}, .step = step},
          .what = wired.what,
          .piece = {0, noise(176, rank, step)},
          .total = 176,
          .sample_count = wired.what == slot::parameters ? 1 : 1 + rank};
}

exchange_pump::options pumped(const wiring& wired, const worker_groups& groups, std::uint64_t steps) {
  return {.workers = workers_of(groups),
          .servers = wired.servers,
          .steps = steps,
          .make = [=](rank_id rank) { return make_group_member(grouped(wired, groups, rank)); },
          .bring = [wired](std::uint32_t rank, std::uint64_t step,
                           const at::Tensor&) { return contribution_of(wired, rank, step); },
          .watch = {}};
}

/// Computes by hand the contribution that one member would make in place of each group.
part brought_by(const wiring& wired, const std::vector<std::uint32_t>& group, std::uint64_t step) {
  models::buffer_pool pool;
  std::vector<rules::weighted> summands;
  std::int64_t samples = 0;
  for (const auto rank : group) {
    const auto one = contribution_of(wired, rank, step);
    summands.push_back({one.piece.values, static_cast<double>(one.sample_count)});
    samples += one.sample_count;
  }
  return {.what = wired.what,
          .piece = {0, rules::mean_in_order(summands, pool)},
          .sample_count = wired.what == slot::parameters ? 1 : samples};
}

/// The inner exchange alone. Its members contribute what the groups would contribute.
exchange_pump inner_alone(const wiring& wired, const worker_groups& groups, std::uint64_t steps) {
  return exchange_pump{{.workers = static_cast<std::uint32_t>(groups.size()),
                        .servers = wired.servers,
                        .steps = steps,
                        .make =
                            [=](rank_id rank) {
                              auto options = outer_options(wired, groups, rank);
                              options.among.world_size = static_cast<std::uint32_t>(groups.size());
                              return find_exchange(wired.kind)->make_member(options);
                            },
                        .bring = [=](std::uint32_t group, std::uint64_t step,
                                     const at::Tensor&) { return brought_by(wired, groups[group], step); },
                        .watch = {}}};
}

bool depends_on_order(const wiring& wired) {
  return !nature_of(*find_exchange(wired.kind), wired.settings).deterministic;
}

}  // namespace

TEST_CASE("groups exchange what their means would, in any order of messages, and all of a group get the answer") {
  for (const auto& wired : wirings) {
    CAPTURE(wired.label);
    for (const auto& groups : {three_groups, worker_groups{{0, 1}, {2, 3}}, worker_groups{{0, 1, 2}},
                               worker_groups{{0}}, worker_groups{{0}, {1}}}) {
      CAPTURE(groups.size());
      auto alone = inner_alone(wired, groups, 3);
      alone.run(1);
      for (std::uint64_t seed = 1; seed <= 15; ++seed) {
        CAPTURE(seed);
        exchange_pump pump{pumped(wired, groups, 3)};
        pump.run(seed);
        CHECK(pump.completed_by_all() == 3);
        for (std::uint32_t group = 0; group < groups.size(); ++group)
          for (const auto rank : groups[group]) {
            CHECK(pump.last(rank).equal(pump.last(groups[group].front())));
            if (!depends_on_order(wired)) CHECK(pump.last(rank).equal(alone.last(group)));
          }
        const auto count = workers_of(groups);
        for (std::uint32_t i = 0; i < wired.servers; ++i) {
          const auto now = pump.held(count + i, 3);
          CHECK(now.version == (depends_on_order(wired) ? 3 * groups.size() : 3));
          if (!depends_on_order(wired))
            CHECK(now.piece.values.equal(alone.held(static_cast<std::uint32_t>(groups.size()) + i, 3).piece.values));
        }
      }
    }
  }
}

TEST_CASE("a mean of groups' gradients is that of all samples, a mean of their parameters that of the groups") {
  const worker_groups groups{{0}, {1, 2}};
  const auto value_of = [&](const wiring& wired) {
    exchange_pump pump{{.workers = 3,
                        .make = [&](rank_id rank) { return make_group_member(grouped(wired, groups, rank)); },
                        .bring =
                            [&](std::uint32_t rank, std::uint64_t, const at::Tensor&) {
                              const auto gradient = wired.what == slot::gradient;
                              return part{.what = wired.what,
                                          .piece = {0, at::full({176}, rank == 0   ? 2.0F
                                                                       : rank == 1 ? 4.0F
                                                                                   : 8.0F)},
                                          .sample_count = gradient && rank == 2 ? 2 : 1};
                            },
                        .watch = {}}};
    pump.run(1);
    return pump.last(2);
  };
  CHECK(at::allclose(value_of(star), at::full({176}, 5.5F)));  // (2 + 4 + 8 + 8)/4
  CHECK(all_are(value_of(averaging), 4));                      // (2 + (4 + 8)/2)/2
}

TEST_CASE("members of a group may be groups themselves") {
  for (const auto& wired : {star, all_reduce}) {
    CAPTURE(wired.label);
    const worker_groups pairs{{0, 1}, {2, 3}, {4, 5}, {6, 7}}, pairs_of_pairs{{0, 1}, {2, 3}};
    auto options = pumped(wired, pairs, 3);
    options.make = [&](rank_id rank) {
      auto outer = grouped(wired, pairs, rank);
      outer.make_inner = [&](const member_options& inner) {
        return make_group_member({pairs_of_pairs, inner, find_exchange(wired.kind)->make_member});
      };
      return make_group_member(outer);
    };
    models::buffer_pool pool;
    const auto mean_of = [&](const part& first, const part& second) {
      return rules::weighted{rules::mean_in_order({{first.piece.values, static_cast<double>(first.sample_count)},
                                                   {second.piece.values, static_cast<double>(second.sample_count)}},
                                                  pool),
                             static_cast<double>(first.sample_count + second.sample_count)};
    };
    const auto left = mean_of(brought_by(wired, pairs[0], 2), brought_by(wired, pairs[1], 2));
    const auto right = mean_of(brought_by(wired, pairs[2], 2), brought_by(wired, pairs[3], 2));
    const auto expected = rules::mean_in_order({left, right}, pool);
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
      exchange_pump pump{options};
      pump.run(seed);
      for (std::uint32_t rank = 0; rank < 8; ++rank) CHECK(pump.last(rank).equal(expected));
    }
  }
}

TEST_CASE("thousands of schedules of groups around two shards leave nothing unanswered") {
  for (std::uint64_t seed = 1; seed <= 1'000; ++seed) {
    CAPTURE(seed);
    const auto& wired = seed % 2 == 0 ? two_asynchronous_shards : two_shards;
    exchange_pump pump{pumped(wired, three_groups, 3)};
    pump.run(seed);
    CHECK_FALSE(pump.in_flight());
    CHECK(pump.completed_by_all() == 3);
    for (const std::uint32_t shard : {6U, 7U}) {
      const auto now = pump.held(shard, 3);
      CHECK(now.staleness.applied == 9);  // a gradient for each group and step
      CHECK(now.version == (seed % 2 == 0 ? 9 : 3));
    }
  }
}

TEST_CASE("the inner member is told of groups, and by the names of their leaders") {
  auto options = grouped(two_shards, three_groups, rank_id{5});
  auto inner = inner_options(options);
  CHECK(inner.among.rank == rank_id{2});
  CHECK(inner.among.world_size == 3);
  CHECK(inner.among.servers == 2);
  CHECK((inner.among.ids == std::vector<rank_id>{rank_id{1}, rank_id{3}, rank_id{0}, rank_id{6}, rank_id{7}}));
  options.own.among.rank = rank_id{7};
  for (const std::uint32_t id : {10U, 11U, 12U, 13U, 14U, 15U, 20U, 21U}) options.own.among.ids.push_back(rank_id{id});
  inner = inner_options(options);
  CHECK(inner.among.rank == rank_id{4});
  CHECK(inner.among.is_server());
  CHECK((inner.among.ids == std::vector<rank_id>{rank_id{11}, rank_id{13}, rank_id{10}, rank_id{20}, rank_id{21}}));
}

TEST_CASE("a group of one says nothing inside, and a follower speaks with his leader alone") {
  exchange_pump pump{pumped(two_shards, three_groups, 1)};
  pump.run(1);
  for (const auto& [between, count] : pump.messages()) {
    const auto [from, to] = between;
    if (from == 3 || to == 3) CHECK(std::max(from, to) >= 6);
    if (from == 4 || to == 4) CHECK(std::min(from, to) == 1);
    if (from == 2 || to == 2) CHECK(std::min(from, to) == 0);
  }
}

TEST_CASE("the plan knows the traffic of groups") {
  for (const auto& wired : wirings) {
    CAPTURE(wired.label);
    exchange_pump pump{pumped(wired, three_groups, 1)};
    pump.run(1);
    std::map<ends, std::uint64_t> messages, bytes;
    const auto inner = find_exchange(wired.kind)->edges(3, three_parameters(), wired.settings);
    for (const auto& edge : group_edges(three_groups, inner, {.messages = 1, .bytes = 176 * sizeof(float)})) {
      messages[{edge.from, edge.to}] += edge.messages;
      bytes[{edge.from, edge.to}] += edge.bytes;
    }
    CHECK((pump.bytes() == bytes));
    if (wired.label == star.label || wired.label == averaging.label) CHECK((pump.messages() == messages));
  }
}

TEST_CASE("edges between groups are used as often as those of the exchange inside") {
  const std::vector<planned_edge> inner{{0, 1, 2, 64, 0.25}, {2, 0, 1, 32, 1}};
  const auto edges = group_edges({{0, 1}, {2}, {3, 4}}, inner, {.messages = 1, .bytes = 128});
  std::map<ends, double> used;
  for (const auto& edge : edges) used[{edge.from, edge.to}] = edge.used;
  CHECK((used ==
         std::map<ends, double>{{{0, 2}, 0.25}, {{3, 0}, 1}, {{1, 0}, 1}, {{0, 1}, 1}, {{4, 3}, 1}, {{3, 4}, 1}}));
}

TEST_CASE("members of groups say whom they wait for by outer index") {
  exchange_pump pump{pumped(two_shards, three_groups, 1)};
  const auto waits = [&](std::uint32_t index) {
    std::vector<std::uint32_t> result;
    for (const auto rank : pump.at(index).waiting_for(0)) result.push_back(static_cast<std::uint32_t>(rank));
    return result;
  };
  using list = std::vector<std::uint32_t>;
  CHECK((waits(0) == list{0, 2, 5}));
  CHECK((waits(2) == list{0}));
  pump.contribute(2);
  pump.deliver(2, 0);
  CHECK((waits(0) == list{0, 5}));
  pump.contribute(0);
  pump.contribute(5);
  pump.deliver(5, 0);
  CHECK((waits(0) == list{6, 7}));
  CHECK(waits(6).empty());
  pump.deliver(0, 6);
  CHECK((waits(6) == list{1, 3}));
  exchange_pump star_pump{pumped(star, three_groups, 1)};
  star_pump.contribute(1);
  star_pump.contribute(4);
  star_pump.deliver(4, 1);
  std::vector<rank_id> missing = star_pump.at(1).waiting_for(0);
  CHECK((missing == std::vector<rank_id>{rank_id{0}, rank_id{3}}));
}

TEST_CASE("a leader forgets a step's contributions, and takes each once") {
  kept out;
  const auto one = make_group_member(grouped(star, three_groups, rank_id{0}));
  one->receive(contribution_of(star, 2, 0), out);
  CHECK(code_of(*one, contribution_of(star, 2, 0)) == errc::stale);
  CHECK_THROWS_AS(one->contribute(
                      [] {
                        auto wrong = contribution_of(star, 0, 0);
                        wrong.piece.values = at::ones({5});
                        return wrong;
                      }(),
                      out),
                  exchange_error);
  CHECK(out.sent.empty());
  one->contribute(contribution_of(star, 0, 0), out);
  one->receive(contribution_of(star, 5, 0), out);
  REQUIRE(out.sent.size() == 1);  // the mean, to the leader of the first group, which is the star's master
  CHECK(out.sent[0].first == rank_id{1});
  CHECK(out.sent[0].second.origin.sender == rank_id{0});
  CHECK(out.sent[0].second.sample_count == 1 + 3 + 6);
  CHECK(code_of(*one, contribution_of(star, 5, 0)) == errc::stale);
  one->forget_before(1);
  CHECK(one->waiting_for(1).size() == 4);  // the master, and the whole group
}

TEST_CASE("a part from who has no say here is refused") {
  kept out;
  const auto answer = [](std::uint32_t sender) {
    auto result = contribution_of(star, sender, 0);
    result.at = stage::result;
    return result;
  };
  const auto leader = [] { return make_group_member(grouped(star, three_groups, rank_id{1})); };
  CHECK(code_of(*leader(), contribution_of(star, 2, 0)) == errc::mismatch);  // another group's follower
  CHECK(code_of(*leader(), answer(4)) == errc::mismatch);                    // an answer from its own follower
  auto partial = contribution_of(star, 4, 0);
  partial.piece = {16, at::ones({16})};
  CHECK(code_of(*leader(), partial) == errc::mismatch);
  const auto follower = [&] {
    auto one = make_group_member(grouped(star, three_groups, rank_id{4}));
    one->contribute(contribution_of(star, 4, 0), out);
    return one;
  };
  CHECK(code_of(*follower(), answer(0)) == errc::mismatch);  // another leader
  CHECK(code_of(*follower(), contribution_of(star, 1, 0)) == errc::mismatch);
  CHECK(code_of(*make_group_member(grouped(star, three_groups, rank_id{4})), answer(1)) == errc::mismatch);
  auto outside = answer(1);
  outside.piece.first = 16;
  CHECK(code_of(*follower(), outside) == errc::mismatch);
  const auto one = follower();
  one->receive(answer(1), out);
  CHECK(out.answers.size() == 1);
  CHECK(code_of(*one, answer(1)) == errc::stale);
  CHECK_THROWS_AS(one->contribute(contribution_of(star, 4, 0), out), exchange_error);
  const auto server_side = make_group_member(grouped(two_shards, three_groups, rank_id{6}));
  auto gradient = contribution_of(two_shards, 2, 0);
  gradient.piece = {0, at::ones({64})};
  CHECK(code_of(*server_side, gradient) == errc::mismatch);  // from a worker that does not lead a group
}

}  // namespace group_test
