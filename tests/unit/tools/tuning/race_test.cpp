// Which candidates are trained, for how long, and which is the best.
#include "troupe/tools/tuning/race.hpp"

#include "tests/support/doctest.hpp"

#include "troupe/files/error.hpp"
#include "troupe/runtime/topology/load.hpp"
#include "troupe/tools/tuning/search.hpp"

namespace troupe::testing::race {

using tuning::contender;

namespace {

comparing::point at(double seconds, double accuracy) {
  return {.seconds = seconds, .val_accuracy = accuracy};
}

contender made(const std::string& label, const std::string& family, std::uint32_t coarseness, double pace) {
  contender one{
      .what = {.label = label, .family = family, .coarseness = coarseness}, .step = {.seconds = pace}, .steps = 1000};
  one.what.file.workers.count = 2;
  return one;
}

contender trained(double horizon, double accuracy, std::optional<double> to_target) {
  contender one{.step = {.seconds = 1}, .steps = 1000};
  one.trainings.push_back(
      {.seed = 1, .horizon = horizon, .result = {.points = {at(horizon, accuracy)}}, .to_target = to_target});
  return one;
}

}  // namespace

TEST_CASE("the time to a target lies between two evaluations") {
  CHECK_FALSE(tuning::seconds_to(0.9, {at(1, 0.5), at(2, 0.8)}).has_value());
  CHECK(*tuning::seconds_to(0.9, {at(1, 0.5), at(2, 0.8), at(4, 1.0)}) == doctest::Approx(3));
  CHECK(*tuning::seconds_to(0.4, {at(1, 0.5), at(2, 0.8)}) == doctest::Approx(1));
  CHECK(*tuning::seconds_to(0.8, {at(1, 0.5), at(2, 0.8)}) == doctest::Approx(2));
}

TEST_CASE("what sends less is out unless its steps are faster") {
  std::vector<contender> all{made("as it is", "", 0, 5),
                             made("sum", tuning::exact_family, 0, 2),
                             made("ring", tuning::exact_family, 0, 3),
                             made("bf16", "encoded", 0, 1.95),
                             made("int8", "encoded", 1, 1.5),
                             made("int4", "encoded", 2, 1.45),
                             made("H = 4", "averages", 0, 1)};
  cut_by_pace(all);
  const std::vector<bool> in{true, true, false, false, true, false, true};
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(all[i].what.label);
    CHECK(all[i].is_in() == in[i]);
  }
  CHECK(all[2].out == "the same steps as sum, which is faster");
  CHECK(all[3].out == "no faster per step than sum, which sends more");
}

TEST_CASE("all candidates are trained for the same virtual time, as long as the budget allows") {
  const auto slow = made("slow", "", 0, 2), fast = made("fast", "", 0, 0.5);
  tuning::race_options how{.parallel = 2, .real = {.gradient = 0.1, .evaluation = 0}};
  const auto horizon = tuning::horizon_within(31, {&slow, &fast}, how);
  // Each starts in 1 s, and has 2 gradients of 0.12 s per step: 2 * 31 = 2 + 0.24 * (horizon / 2 + horizon / 0.5).
  CHECK(horizon == doctest::Approx(100));
  CHECK(tuning::horizon_within(1e9, {&slow, &fast}, how) == doctest::Approx(2000));  // the whole run of the slow one
}

TEST_CASE("the first at the target is the best, then the most accurate of those that went furthest") {
  const std::vector<contender> all{trained(10, 0.8, {}), trained(10, 0.99, 9),  trained(20, 0.7, {}),
                                   trained(10, 0.97, 5), trained(20, 0.75, {}), contender{.step = {.seconds = 1}}};
  CHECK(tuning::ranking(all, {.target = 0.95}) == std::vector<std::size_t>{3, 1, 4, 2, 0, 5});
}

TEST_CASE("the usual candidates are valid files, and the file itself is one of them") {
  const auto found = tuning::usual_candidates(
      topology::parse("[run]\nseed = 1\nsteps = 8\n[workers]\ncount = 4\nloop = [\"gradient\", \"exchange\", "
                      "\"apply\"]\n[exchange]\nkind = \"all_reduce\"\n",
                      "four.toml"));
  CHECK(found.refused.empty());
  REQUIRE(found.all.size() > 20);
  CHECK(found.all.front().label == "four as it is");
  CHECK(found.all.front().family == tuning::exact_family);
  for (const auto& each : found.all) {
    CAPTURE(each.label);
    CHECK(each.label != "all_reduce");  // the file is the same
    CHECK(topology::parse(topology::print(each.file), "four.toml") == each.file);
  }
  const auto varied = tuning::varied_candidates(found.all.front().file,
                                                {{"exchange.every", {"1", "2"}}, {"optimizer.lr", {"0.1", "0.2"}}});
  REQUIRE(varied.all.size() == 4);
  CHECK(varied.all[1].label == "every=1, lr=0.2");
  CHECK(varied.all[1].settings == std::vector<std::string>{"exchange.every=1", "optimizer.lr=0.2"});
}

TEST_CASE("a link is that of each node, or of each worker") {
  topology::topology base;
  base.workers.count = 2;
  auto links = tuning::links_of("50Mbit/s,20ms", base);
  REQUIRE(links.size() == 1);
  CHECK(*links[0].at == "*");
  CHECK(links[0].real);
  CHECK(tuning::network_text(links) == "50Mbit/s, 20ms");
  base.nodes = {{.name = "alpha"}, {.name = "beta"}};
  links = tuning::links_of("1Gbit/s", base);
  REQUIRE(links.size() == 2);
  CHECK(*links[1].at == "beta");
  CHECK(tuning::network_text(links) == "1Gbit/s");
  for (const auto* text : {"", "fast", "50Mbit/s,", "50Mbit/s,20", "20ms,50Mbit/s"})
    CHECK_THROWS_WITH_AS(tuning::links_of(text, base), doctest::Contains("expected a bandwidth"), input_error);
}

}  // namespace troupe::testing::race
