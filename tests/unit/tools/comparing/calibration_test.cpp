// How a simulated run is compared with a real one. The simulations here are formulas, so that the causes of the
// difference are known.
#include "troupe/tools/comparing/calibration.hpp"

#include "tests/support/doctest.hpp"
#include "tests/support/scratch.hpp"

#include "troupe/files/error.hpp"
#include "troupe/runtime/topology/load.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <string>

namespace comparing_calibration_test {

namespace {

using namespace troupe;
using namespace troupe::comparing;
using namespace std::chrono_literals;
using std::chrono::microseconds;

constexpr auto text = R"(
[run]
steps = 10
[model]
name = "lenet"
[data]
name = "digits"
batch_size = 8
[workers]
count = 2
[exchange]
kind = "all_reduce"
)";

/// Two workers that make 100 steps each. In addition to the gradient, a step computes for 1 ms and waits for 2 ms.
run_figures predicted_with(microseconds gradient) {
  const auto seconds = std::chrono::duration<double>(gradient).count();
  return {.workers = 2,
          .steps = 200,
          .train_seconds = 100 * (seconds + 0.003),
          .busy = 200 * (seconds + 0.001),
          .exchange_wait = 200 * 0.002,
          .bytes_sent = 1000};
}

std::string refusal(const std::string& other, const testing::scratch& folder) {
  folder.write("topology.toml", topology::print(topology::parse(text, "here.toml")));
  try {
    check_same_run(topology::parse(text + other, "here.toml"), folder.path());
  } catch (const input_error& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("a run of longer gradients is explained by the gradient alone") {
  const auto why = explain(predicted_with(8ms), predicted_with(5ms), 5ms, predicted_with);
  CHECK(why.gradient.count() == doctest::Approx(8000).epsilon(0.01));
  CHECK(why.whole == doctest::Approx(0.3));
  CHECK(why.of_gradient == doctest::Approx(0.3).epsilon(0.02));
  CHECK(why.of_data == 0);
  CHECK(why.rest == doctest::Approx(0).epsilon(0.01));
}

TEST_CASE("what explains a difference adds up to it") {
  auto real = predicted_with(6ms);
  real.busy += 200 * 0.004;  // waiting for samples
  real.data_wait += 200 * 0.004;
  real.train_seconds += 100 * (0.004 + 0.010);  // and 10 ms of an unknown cause
  const auto why = explain(real, predicted_with(5ms), 5ms, predicted_with);
  CHECK(why.whole == doctest::Approx(1.5));
  CHECK(why.of_gradient == doctest::Approx(0.1).epsilon(0.05));
  CHECK(why.of_data == doctest::Approx(0.4).epsilon(0.02));
  CHECK(why.rest == doctest::Approx(1.0).epsilon(0.02));
  CHECK(why.of_gradient + why.of_data + why.rest == doctest::Approx(why.whole));
  const auto all = quantities_of(real, predicted_with(5ms));
  const auto said = text_of("runs/real", all, why, 5ms);
  CAPTURE(said);
  CHECK(said.find("handling of messages") != std::string::npos);
  CHECK(said.find("training took +1.5 s") != std::string::npos);
  const auto json = nlohmann::json::parse(json_of("runs/real", all, why, 5ms));
  CHECK(json["quantities"]["train_seconds"]["real"] == real.train_seconds);
  CHECK(json["quantities"]["train_seconds"]["difference"].get<double>() ==
        doctest::Approx(predicted_with(5ms).train_seconds / real.train_seconds - 1));
  CHECK(json["quantities"]["data_wait_share"]["predicted"] == 0);
  CHECK(!json["quantities"].contains("staleness_mean"));
}

TEST_CASE("the figures of a run come from its files") {
  const testing::scratch folder;
  folder.write("metrics.jsonl",
               "{\"event\":\"start\",\"seconds\":0}\n"
               "{\"event\":\"epoch\",\"epoch_seconds\":9.0}\n{\"event\":\"epoch\",\"epoch_seconds\":2.0}\n"
               "{\"event\":\"epoch\",\"epoch_seconds\":4.0}\n"
               "{\"event\":\"end\",\"status\":\"done\",\"train_seconds\":6.5,\"bytes_sent\":40,"
               "\"samples_per_second\":10.5,\"staleness_mean\":null}\n");
  folder.write("workers.csv",
               "worker,steps,samples,bytes_sent,busy_seconds,data_wait_seconds,exchange_wait_seconds\n"
               "0,10,80,20,3.0,0.5,1.0\n1,30,240,20,5.0,0.25,2.0\n");
  folder.write("links.csv",
               "interface,direction,messages,bytes,busy_seconds,busy_share,wait_mean_seconds,wait_max_seconds\n"
               "w0,send,1,20,1.0,0.25,0,0\nw1,send,1,20,2.0,0.5,0,0\n");
  const auto found = read_figures(folder.path());
  CHECK(found.workers == 2);
  CHECK(found.steps == 40);
  CHECK(found.train_seconds == 6.5);
  CHECK(found.epoch_seconds == 4.0);
  CHECK(found.busy == 8.0);
  CHECK(found.data_wait == 0.75);
  CHECK(found.exchange_wait == 3.0);
  CHECK(found.bytes_sent == 40);
  CHECK(found.busiest_share == 0.5);
  CHECK(!found.staleness_mean);
  folder.write("metrics.jsonl", "{\"event\":\"start\",\"seconds\":0}\nnonsense\n");
  CHECK_THROWS_AS(read_figures(folder.path()), input_error);
  folder.write("workers.csv", "worker,steps\n0,x\n");
  CHECK_THROWS_AS(read_figures(folder.path()), input_error);
  CHECK_THROWS_AS(read_figures(folder.path() / "absent"), input_error);
}

TEST_CASE("only a run of the same topology is compared") {
  const testing::scratch folder;
  CHECK(refusal("", folder) == "accepted");
  CHECK(refusal("[simulate]\ngradient = \"3ms\"\n", folder) == "accepted");
  CHECK(refusal("[[link]]\nat = \"*\"\nlatency = \"3ms\"\n", folder) == "accepted");
  CHECK(refusal("[[node]]\nname = \"a\"\nworkers = 2\n", folder) == "accepted");
  const auto other = refusal("[optimizer]\nlr = 0.75\n[evaluate]\nevery = 3\n", folder);
  CAPTURE(other);
  CHECK(other.find("optimizer.lr is ") != std::string::npos);
  CHECK(other.find("evaluate.every is ") != std::string::npos);
}

}  // namespace comparing_calibration_test
