// Where the time of a run went, from numbers that can be checked by hand.
#include "tests/support/doctest.hpp"

#include "troupe/runtime/diagnosis/suggestions.hpp"
#include "troupe/runtime/topology/error.hpp"

#include <string>
#include <string_view>

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
  CHECK(found.exchange_least == doctest::Approx(0.1));
  CHECK(found.exchange_most == doctest::Approx(0.4));
  CHECK(found.evaluation == doctest::Approx(0.2));
  CHECK(run.evaluations == 1);
}

TEST_CASE("the worker whose steps take longest is the slowest, however many it made") {
  const auto found = findings_of(run_of("0,10,80,0,2,0,7\n1,10,80,0,2,0,7\n2,4,80,0,4,0,0\n"));
  CHECK(found.slowest == 2);
  CHECK(found.slowness == doctest::Approx(5));
  CHECK(waits_for_slowest(found));
}

TEST_CASE("waits that all workers have alike are those of the exchange itself") {
  const auto run = run_of("0,10,80,0,2,0,8\n1,10,80,0,2,0,8\n");
  const auto found = findings_of(run);
  CHECK(!waits_for_slowest(found));
  CHECK(summary(run, found).find("even the worker that waits least waits for them in 80.0 %") != std::string::npos);
}

TEST_CASE("the busiest link is named") {
  const auto run = run_of("0,10,80,0,2,0,8\n",
                          "interface,direction,messages,bytes,busy_seconds,busy_share,wait_mean_seconds\n"
                          "w0,send,1,8,1,0.25,0.002\nw0 to w1,receive,1,8,2,0.5,0.004\n");
  const auto found = findings_of(run);
  REQUIRE(found.busiest);
  CHECK(found.busiest->name == "w0 to w1 receives");
  CHECK(summary(run, found).find("occupied for 50.0 % of the run; a message waits 4 ms") != std::string::npos);
}

TEST_CASE("a run that computes all the time needs no other wiring") {
  const auto run = run_of("0,10,80,0,9.9,0,0\n1,10,80,0,9.9,0,0\n");
  topology::topology file;
  file.exchanges = {{.kind = "all_reduce", .sends = "gradient"}};
  auto found = findings_of(run);
  found.evaluation = 0;
  CHECK(suggestions_of(found, file, 2).empty());
  const auto with_cores = suggestions_of(found, file, 8);
  REQUIRE(with_cores.size() == 1);
  CHECK(with_cores[0].settings == std::vector<std::string>{"run.threads=4"});
}

TEST_CASE("waiting for samples asks for more threads, up to the number of cores") {
  const auto found = findings_of(run_of("0,10,80,0,9,5,0\n"));
  topology::topology file;
  file.data.threads = 1;
  const auto made = suggestions_of(found, file, 2);
  REQUIRE(!made.empty());
  CHECK(made[0].settings == std::vector<std::string>{"data.threads=2"});
  CHECK(!made[0].changes_training);
  file.data.threads = 2;
  for (const auto& each : suggestions_of(found, file, 2)) CHECK(!each.settings[0].starts_with("data."));
}

TEST_CASE("files of a run that has not ended, or are damaged, are refused") {
  CHECK(refusal("", header).find("out: the run has not ended") == 0);
  CHECK(
      refusal(metrics, header).find("out: there are no times to explain: the run has made no steps, or is a replay") ==
      0);
  CHECK(refusal(metrics, "worker,steps\n0,1\n").find("out/workers.csv:2: there is no column busy_seconds") == 0);
  CHECK(refusal(metrics, header + "0,x,1,1,1,1,1\n").find("out/workers.csv:2: the value of steps") == 0);
  for (const std::string_view odd : {"nan", "inf", "-inf"})
    CHECK(
        refusal(metrics, header + "0,1,1,1," + std::string(odd) + ",1,1\n").find("the value of busy_seconds is not") !=
        std::string::npos);
}
