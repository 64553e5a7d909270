// How the time of a run was spent, from numbers that can be checked by hand.
#include "tests/support/doctest.hpp"

#include "troupe/files/error.hpp"
#include "troupe/tools/diagnosis/suggestions.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

namespace diagnosis_test {

using namespace troupe;
using namespace troupe::diagnosis;

namespace {

const std::string metrics =
    "{\"event\":\"start\",\"step\":0}\n{\"event\":\"evaluation\",\"step\":10}\n"
    "{\"event\":\"end\",\"step\":10,\"seconds\":12.5,\"train_seconds\":10.0,\"status\":\"done\"}\n";
const std::string header = "worker,steps,samples,bytes_sent,busy_seconds,data_wait_seconds,exchange_wait_seconds\n";

measured_run run_of(const std::string& rows, const std::string& links = "") {
  return parse_run(metrics, header + rows, links, "out");
}

std::string refusal(const std::string& lines, const std::string& workers) {
  try {
    parse_run(lines, workers, "", "out");
  } catch (const input_error& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("shares of the training time add up, and evaluation has a share of the run") {
  const auto run = run_of("0,10,80,0,5,1,4\n1,10,80,0,8,0,1\n");
  const auto found = findings_of(run);
  CHECK(found.workers[0].compute == doctest::Approx(0.4));
  CHECK(found.workers[0].data == doctest::Approx(0.1));
  CHECK(found.workers[0].exchange == doctest::Approx(0.4));
  CHECK(found.workers[0].other == doctest::Approx(0.1));
  CHECK(found.mean.compute == doctest::Approx(0.6));
  CHECK(found.workers[1].exchange == doctest::Approx(0.1));
  CHECK(found.evaluation == doctest::Approx(0.2));
  CHECK(run.evaluations == 1);
}

TEST_CASE("the worker whose steps take longest is the slowest, however many it made") {
  const auto found = findings_of(run_of("0,10,80,0,2,0,7\n1,10,80,0,2,0,7\n2,4,80,0,4,0,0\n"));
  CHECK(found.slowest == 2);
  CHECK(found.slowness == doctest::Approx(5));
}

TEST_CASE("the largest relief is named as the cause, with the time that the run would have taken without it") {
  const auto run = run_of("0,10,80,0,2,0,8\n1,10,80,0,4,0,6\n");
  const auto found = findings_of(run);
  const auto said = [&](const explanation& why) { return summary(run, found, why); };
  const auto has = [](const std::string& text, const char* words) {
    CAPTURE(text);
    return text.find(words) != std::string::npos;
  };
  CHECK(has(said({.reliefs = {{cause::exchanges, 4}, {cause::slow_worker, 9}}}),
            "The links hold the workers back most: if messages took no time, the run would take 4 s."));
  CHECK(has(said({.reliefs = {{cause::slow_worker, 8}}}), "Worker 1 holds the others back most"));
  CHECK(has(said({.reliefs = {{cause::cores, 6}}, .contention = 2, .competitors = core_users::workers}),
            "each had one in 50.0 % of the time in which it computed, because there are more workers than cores"));
  CHECK(has(said({.reliefs = {{cause::cores, 6}}, .contention = 2, .competitors = core_users::other_programs}),
            "because other programs used them"));
  CHECK(has(said({.reliefs = {{cause::data, 6}}}), "Samples arrive too late"));
  CHECK(has(said({.reliefs = {{cause::evaluation, 6}}}), "Evaluation holds the workers back most"));
  CHECK(has(said({.reliefs = {{cause::exchanges, 12.4}}}), "neither links nor a slow worker explain it"));
  CHECK(has(summary(run, found, std::nullopt), "Most of the waiting is for exchanges."));
}

TEST_CASE("a relief of less than a twentieth is not called a cause") {
  const explanation why{.reliefs = {{cause::data, 9.6}}};
  CHECK(!why.main_cause(10));
  CHECK(why.main_cause(11)->of == cause::data);
  CHECK(!explanation{}.main_cause(10));
}

TEST_CASE("the busiest link is named") {
  const auto run = run_of("0,10,80,0,2,0,8\n",
                          "interface,direction,messages,bytes,busy_seconds,busy_share,wait_mean_seconds\n"
                          "w0,send,1,8,1,0.25,0.002\nw0 to w1,receive,1,8,2,0.5,0.004\n");
  const auto found = findings_of(run);
  REQUIRE(found.busiest);
  CHECK(found.busiest->name == "w0 to w1 receives");
  CHECK(summary(run, found, std::nullopt).find("occupied for 50.0 % of the run; a message waits 4 ms") !=
        std::string::npos);
}

TEST_CASE("candidates follow from the kinds of exchanges, and threads for samples from the cores") {
  topology::topology file;
  file.workers.count = 4;
  file.data.threads = 1;
  file.exchanges = {{.kind = "all_reduce", .sends = "gradient"}};
  const auto has = [&](unsigned cores, const std::string& setting) {
    const auto all = candidates(file, cores);
    return std::any_of(all.begin(), all.end(), [&](const auto& each) { return each.settings.front() == setting; });
  };
  CHECK(has(2, "data.threads=2"));
  CHECK(!has(1, "data.threads=2"));
  CHECK(has(2, "exchange.encoding=bf16"));
  CHECK(has(2, "exchange.kind=parameter_server"));
  file.exchanges.front().encoding = "bf16";
  CHECK(!has(2, "exchange.encoding=bf16"));
}

TEST_CASE("the CPU time of workers is read where it was measured") {
  CHECK(run_of("0,10,80,0,9,5,0\n").workers[0].cpu == 0);
  const auto run =
      parse_run(metrics, header.substr(0, header.size() - 1) + ",cpu_seconds\n0,10,80,0,9,5,0,3.5\n", "", "out");
  CHECK(run.workers[0].cpu == 3.5);
  CHECK(run.samples() == 80);
}

TEST_CASE("files of a run that has not ended, or are damaged, are refused") {
  CHECK(refusal("", header).find("out: the run has not ended") == 0);
  CHECK(
      refusal(metrics, header).find("out: there are no times to explain: the run has made no steps, or is a replay") ==
      0);
  CHECK(refusal(metrics, "worker,steps\n0,1\n").find("out/workers.csv:2: the row has no value in the column samples") ==
        0);
  CHECK(refusal(metrics, header + "0,x,1,1,1,1,1\n").find("out/workers.csv:2: the value of steps") == 0);
  for (const std::string_view odd : {"nan", "inf", "-inf"})
    CHECK(
        refusal(metrics, header + "0,1,1,1," + std::string(odd) + ",1,1\n").find("the value of busy_seconds is not") !=
        std::string::npos);
}

}  // namespace diagnosis_test
