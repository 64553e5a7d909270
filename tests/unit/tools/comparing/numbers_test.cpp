// The numbers of a comparison: values read from metrics.jsonl, medians and ranges, time to a target, time left.
#include "tests/support/doctest.hpp"

#include "troupe/files/error.hpp"
#include "troupe/tools/comparing/conclusion.hpp"
#include "troupe/tools/comparing/measure.hpp"
#include "troupe/tools/comparing/progress.hpp"
#include "troupe/tools/comparing/statistics.hpp"
#include "troupe/tools/comparing/tables.hpp"
#include "troupe/tools/comparing/variants.hpp"
#include "troupe/tools/comparing/words.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace comparing_numbers_test {

using namespace troupe;
using namespace troupe::comparing;

namespace {

// Two workers with batches of 8: 16 samples per step, at 40 and then 80 samples per second of training time.
const std::string metrics = R"({"event":"start","step":0,"seconds":0,"train_seconds":0}
{"event":"evaluation","step":5,"updates":5,"bytes_sent":500,"seconds":2.5,"train_seconds":2.0,"samples_per_second":40.0,"val_accuracy":0.8,"val_loss":0.7}
{"event":"epoch","step":5,"updates":5,"bytes_sent":500,"seconds":2.5,"train_seconds":2.0,"samples_per_second":40.0,"val_accuracy":0.8,"val_loss":0.7}
{"event":"evaluation","step":10,"updates":10,"bytes_sent":1000,"seconds":4.0,"train_seconds":3.0,"samples_per_second":80.0,"val_accuracy":0.9,"val_loss":0.4}
{"event":"evaluation","step":15,"updates":15,"bytes_sent":1500,"seconds":5.5,"train_seconds":4.0,"samples_per_second":80.0,"val_accuracy":0.85,"val_loss":null}
{"event":"end","step":15,"updates":15,"bytes_sent":1500,"seconds":5.5,"train_seconds":4.0,"samples_per_second":60.0,"val_accuracy":0.85,"staleness_mean":1.5,"status":"done"}
)";

const std::string workers = R"(worker,steps,samples,bytes_sent,busy_seconds,data_wait_seconds,exchange_wait_seconds
0,15,120,750,3.0,0.0,0.5
1,15,120,750,2.0,0.0,1.5
)";

run_result result_at(double seconds, double accuracy, std::optional<double> to_target = {}) {
  run_result result;
  result.status = "done";
  result.seconds = seconds;
  result.bytes_sent = 1000;
  result.final_accuracy = accuracy;
  result.seconds_to_target = to_target;
  return result;
}

comparison of_two(std::uint32_t repeats) {
  comparison what;
  what.variants.resize(2);
  what.variants[0].label = what.variants[0].file = "a";
  what.variants[1].label = what.variants[1].file = "b";
  what.repeats = repeats;
  return what;
}

}  // namespace

TEST_CASE("a result holds the figures of the last line, and those at the first evaluation that reaches the target") {
  auto result = result_of(metrics, 0.85);
  add_workers(result, workers);
  CHECK(result.status == "done");
  CHECK(result.seconds == 5.5);
  CHECK(result.samples == 240);
  CHECK(result.updates == 15);
  CHECK(result.bytes_sent == 1500);
  CHECK(result.final_accuracy == 0.85);
  CHECK(result.best_accuracy == 0.9);
  CHECK(result.seconds_to_target == 4.0);
  CHECK(result.bytes_to_target == 1000);
  CHECK(result.samples_to_target == 160);
  CHECK(result.staleness_mean == 1.5);
  CHECK(result.idle_share == 0.25);  // 0.5 and 1.5 s of 4 s of training
  CHECK(result.finished());
  REQUIRE(result.points.size() == 3);  // one for each step
  CHECK(result.points[0].samples == 80);
  CHECK(result.points[2].samples == 240);
  CHECK_FALSE(result.points[2].val_loss.has_value());
}

TEST_CASE("a run without a last line has failed, whatever it has measured before") {
  const auto cut = metrics.substr(0, metrics.find("{\"event\":\"end\"") + 20);
  const auto result = result_of(cut, 0.95);
  CHECK(result.status == "failed");
  CHECK_FALSE(result.finished());
  CHECK_FALSE(result.seconds.has_value());
  CHECK_FALSE(result.seconds_to_target.has_value());
  CHECK(result.best_accuracy == 0.9);
  CHECK(result_of("", std::nullopt).status == "failed");
}

TEST_CASE("a table of workers that is not one changes nothing") {
  for (const std::string table : {"", "worker\n", "worker,samples,exchange_wait_seconds\n0,x,1\n",
                                  "worker,samples,exchange_wait_seconds\n0,1\n", "samples,exchange_wait_seconds\n"}) {
    CAPTURE(table);
    auto result = result_of(metrics, 0.85);
    add_workers(result, table);
    CHECK_FALSE(result.samples.has_value());
    CHECK_FALSE(result.idle_share.has_value());
  }
}

TEST_CASE("a spread is the median and the range of the values that are set") {
  CHECK_FALSE(spread_of({}).has_value());
  CHECK_FALSE(spread_of({std::nullopt, std::nullopt}).has_value());
  const auto odd = spread_of({5.0, std::nullopt, 1.0, 2.0});
  CHECK(odd->median == 2.0);
  CHECK(odd->low == 1.0);
  CHECK(odd->high == 5.0);
  CHECK(odd->count == 3);
  CHECK(spread_of({1.0, 4.0})->median == 2.5);
}

TEST_CASE("a run that does not reach the target counts as infinitely long") {
  const auto most = to_target_of({3.0, std::nullopt, 1.0});
  CHECK(most->taken.median == 3.0);
  CHECK(most->taken.high == std::numeric_limits<double>::infinity());
  CHECK(most->reached == 2);
  CHECK(most->is_finite());
  CHECK_FALSE(to_target_of({3.0, std::nullopt})->is_finite());
  CHECK_FALSE(to_target_of({std::nullopt})->is_finite());
  CHECK_FALSE(to_target_of({}).has_value());
}

TEST_CASE("the range of n repeats contains the median with a probability of 1 - 2^(1 - n)") {
  CHECK(coverage_of_range(1) == 0);
  CHECK(coverage_of_range(2) == 0.5);
  CHECK(coverage_of_range(5) == 0.9375);
}

TEST_CASE("a curve combines the repeats step by step, and ends where fewer than half of them go on") {
  std::vector<made_run> runs;
  for (std::uint32_t repeat = 1; repeat <= 3; ++repeat) {
    auto result = result_at(10, 0.9);
    for (std::uint64_t step = 1; step <= (repeat == 1 ? 2U : 1U); ++step) {
      point at;
      at.step = step;
      at.seconds = static_cast<double>(repeat * step);
      at.val_accuracy = 0.1 * repeat;
      result.points.push_back(at);
    }
    runs.push_back({{.variant = 0, .repeat = repeat, .seed = repeat}, result});
  }
  const auto all = summaries_of(of_two(3), runs);
  REQUIRE(all.size() == 2);
  REQUIRE(all[0].curve.size() == 1);
  CHECK(all[0].curve[0].seconds == 2.0);
  CHECK(all[0].curve[0].accuracy->median == doctest::Approx(0.2));
  CHECK(all[0].curve[0].accuracy->high == doctest::Approx(0.3));
  CHECK(all[1].runs == 0);
  CHECK_FALSE(all[1].seconds.has_value());
}

TEST_CASE("runs are interleaved, each repeat begins with another variant, and seeds count up") {
  auto what = of_two(2);
  what.first_seed = 7;
  const std::vector<planned_run> wanted{{0, 1, 7}, {1, 1, 7}, {1, 2, 8}, {0, 2, 8}};
  CHECK((runs_of(what) == wanted));  // a planned_run cannot be printed
}

TEST_CASE("the time left is estimated from the runs of the same variant, or from all") {
  using seconds = time_left::seconds;
  time_left left;
  CHECK_FALSE(left.of({0, 1}).has_value());
  left.add(0, seconds{10});
  left.add(1, seconds{30});
  CHECK(left.of({0, 1, 2})->count() == 10 + 30 + 20);
  CHECK(left.of({0, 1}, seconds{4})->count() == 6 + 30);
  CHECK(left.of({0, 1}, seconds{40})->count() == 30);
}

TEST_CASE("values of --vary are separated by commas outside brackets and quotes") {
  const auto varied = parse_varied("workers.slowdown=1,[1, 1, 4],\"a,b\"");
  CHECK(varied.key == "workers.slowdown");
  CHECK(varied.values == std::vector<std::string>{"1", "[1, 1, 4]", "\"a,b\""});
  for (const auto* wrong : {"optimizer.lr", "optimizer.lr=", "=1", "optimizer.lr=1,,2", "run.seed=1,2"})
    CHECK_THROWS_AS(parse_varied(wrong), input_error);
}

TEST_CASE("the conclusion names the winner, and says where ranges overlap") {
  auto what = of_two(2);
  what.target = 0.9;
  const std::vector<made_run> runs{{{0, 1, 0}, result_at(10, 0.95, 4.0)},
                                   {{0, 2, 1}, result_at(10, 0.93, 6.0)},
                                   {{1, 1, 0}, result_at(10, 0.92, 5.5)},
                                   {{1, 2, 1}, result_at(10, 0.91, 9.5)}};
  const auto found = conclude(what, summaries_of(what, runs));
  REQUIRE_FALSE(found.findings.empty());
  CHECK(found.findings[0].heading == "Fastest to 90 %");
  CHECK(found.findings[0].text ==
        "a with 5.00 s (4.00 s to 6.00 s), before b with 7.50 s (5.50 s to 9.50 s). Its range overlaps with that of b, "
        "so this may be chance.");
  CHECK(found.findings.back().heading == "Best final accuracy");
  CHECK(found.findings.back().text ==
        "a with 94.00 % (93.00 % to 95.00 %), before b with 91.50 % (91.00 % to 92.00 %).");
}

TEST_CASE("a range is that of the repeats that have finished") {
  auto what = of_two(3);
  std::vector<made_run> runs{{{0, 1, 0}, result_at(10, 0.95, 4.0)},
                             {{0, 2, 1}, result_at(10, 0.93, 6.0)},
                             {{0, 3, 2}, result_at(10, 0.93, 6.0)},
                             {{1, 1, 0}, result_at(10, 0.92, 5.5)}};
  const auto says = [&](const std::string& text) {
    const auto limits = conclude(what, summaries_of(what, runs)).limits;
    return std::any_of(limits.begin(), limits.end(), [&](const auto& limit) { return limit.starts_with(text); });
  };
  CHECK(says("Some variants ran only once, so"));
  runs.push_back({{1, 2, 1}, result_at(10, 0.91, 9.5)});
  CHECK(
      says("A range is that of at least 2 repeats; it contains the true median with a probability of at least 50 %."));
  runs.push_back({{1, 3, 2}, result_at(10, 0.91, 9.5)});
  CHECK(says("A range is that of 3 repeats; it contains the true median with a probability of 75 %."));
}

TEST_CASE("variants that share the first place are named before the range of the first one") {
  auto what = of_two(2);
  what.variants.push_back(what.variants[1]);
  what.variants[2].label = "c";
  const std::vector<made_run> runs{{{0, 1, 0}, result_at(4, 0.9, {})}, {{0, 2, 1}, result_at(6, 0.9, {})},
                                   {{1, 1, 0}, result_at(4, 0.9, {})}, {{1, 2, 1}, result_at(6, 0.9, {})},
                                   {{2, 1, 0}, result_at(5, 0.9, {})}, {{2, 2, 1}, result_at(9, 0.9, {})}};
  const auto found = conclude(what, summaries_of(what, runs));
  CHECK(found.findings[0].text ==
        "a and b with 5.00 s each, before c with 7.00 s (5.00 s to 9.00 s). The range of a overlaps with that of c, so "
        "this may be chance.");
}

TEST_CASE("settings that all variants share are not listed, and what may confound a comparison is named") {
  auto what = of_two(1);
  what.variants[0].settings = {{"exchange.0.kind", "\"star\""}, {"optimizer.lr", "0.1"}, {"run.epochs", "1"}};
  what.variants[1].settings = {{"exchange.0.kind", "\"gossip\""}, {"optimizer.lr", "0.2"}, {"run.epochs", "1"}};
  const auto differing = differing_settings(what);
  REQUIRE(differing.size() == 2);
  CHECK(differing[1].values == std::vector<std::string>{"0.1", "0.2"});
  const std::vector<made_run> runs{{{0, 1, 0}, result_at(10, 0.95, 4.0)}, {{1, 1, 0}, result_at(10, 0.92, 5.5)}};
  const auto limits = conclude(what, summaries_of(what, runs)).limits;
  const auto named = [&](const std::string& text) {
    return std::any_of(limits.begin(), limits.end(), [&](const auto& limit) { return limit.find(text) != limit.npos; });
  };
  CHECK(named("The variants also differ in optimizer.lr,"));
  CHECK(named("Each variant ran once"));
}

TEST_CASE("settings of only some kinds of exchange are listed if they are set or differ from the default") {
  auto what = of_two(1);
  what.variants[0].settings = {{"exchange.0.kind", "\"all_reduce\""},
                               {"exchange.0.name", "\"exchange\""},
                               {"exchange.0.bucket_mb", "25.0"},
                               {"exchange.0.send", "\"whole\""},
                               {"exchange.0.route", "\"direct\""}};
  what.variants[1].settings = {
      {"exchange.0.kind", "\"gossip\""}, {"exchange.0.name", "\"exchange\""}, {"exchange.0.graph", "\"ring\""}};
  what.variants[1].given = {"exchange.0.graph"};
  const auto keys = [&] {
    std::vector<std::string> found;
    for (const auto& each : differing_settings(what)) found.push_back(each.shown);
    return found;
  };
  CHECK(keys() == std::vector<std::string>{"exchange.graph", "exchange.kind", "exchange.route"});
  what.variants[0].settings["exchange.1.kind"] = "\"star\"";
  what.variants[0].settings["exchange.1.name"] = "\"far\"";
  CHECK(keys() == std::vector<std::string>{"exchange.exchange.graph", "exchange.exchange.kind",
                                           "exchange.exchange.route", "exchange.far.kind", "exchange.far.name"});
}

TEST_CASE("a row of compare.csv has every digit, and quotes where they are needed") {
  auto what = of_two(1);
  what.variants[0].file = "a,\"b\".toml";
  what.variants[0].varied = {{"optimizer.lr", "0.1"}};
  auto result = result_at(0.1, 0.3, 1.0 / 3);
  const auto csv = compare_csv(what, {{{0, 1, 5}, result}});
  CHECK(csv.substr(csv.find('\n') + 1) ==
        "\"a,\"\"b\"\".toml optimizer.lr=0.1\",1,5,done,0.1,,,1000,0.3,,0.3333333333333333,,\n");
}

TEST_CASE("readable numbers have three digits, and minutes from two minutes on") {
  CHECK(seconds_text(0.01234) == "0.0123 s");
  CHECK(seconds_text(12.34) == "12.3 s");
  CHECK(seconds_text(125) == "2:05 min");
  CHECK(number_text(1234.5) == "1234");
  CHECK(percent_text(0.97123) == "97.12 %");
  CHECK(spread_text(std::nullopt, number_text) == "–");
}

}  // namespace comparing_numbers_test
