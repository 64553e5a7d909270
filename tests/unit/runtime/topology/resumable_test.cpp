#include "troupe/runtime/topology/resumable.hpp"

#include "tests/support/doctest.hpp"

#include "troupe/files/error.hpp"
#include "troupe/runtime/topology/canonical.hpp"
#include "troupe/runtime/topology/load.hpp"

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

namespace topology_resumable_test {

using namespace troupe;

namespace {

const std::string text =
    "[run]\nepochs = 2\n[workers]\ncount = 4\n[[exchange]]\nname = \"ring\"\nkind = \"gossip\"\nevery = 2\n";

/// Returns the message when the run of `text`, changed by `before`, is continued with `now`.
std::string refusal(const std::vector<std::string>& now, const std::vector<std::string>& before = {},
                    const std::string& more = "") {
  try {
    topology::check_resumable(topology::canonical(topology::parse(text, "t.toml", before)),
                              topology::parse(text + more, "t.toml", now), "runs/a");
  } catch (const input_error& reason) {
    return reason.what();
  }
  return "accepted";
}

const std::string start = "t.toml: the run in runs/a cannot be continued with this topology: ";

}  // namespace

TEST_CASE("placement, time limits, checkpoints and the length may change when a run is continued") {
  CHECK(refusal({}) == "accepted");
  CHECK(refusal({}, {}, "[[node]]\nname = \"a\"\nworkers = 1\n[[node]]\nname = \"b\"\nworkers = 3\n") == "accepted");
  for (const auto* each : {"run.timeout=5s", "run.join_timeout=5s", "run.max_seconds=3", "checkpoint.every=7",
                           "checkpoint.keep=9", "run.epochs=5", "run.epochs=1", "run.steps=10", "data.dir=/elsewhere",
                           "optimizer.lr=0.5", "evaluate.target_accuracy=0.9", "evaluate.target_hold=3",
                           "evaluate.patience=5", "evaluate.every=7", "exchange.ring.every=3"}) {
    CAPTURE(each);
    CHECK(refusal({each}) == "accepted");
    CHECK(refusal({}, {each}) == "accepted");
  }
}

TEST_CASE("links that are real may change, because they delay nothing and change no bit") {
  const std::string real = "[[link]]\nat = \"*\"\nlatency = \"1ms\"\nreal = true\n";
  const std::string emulated = "[[link]]\nat = \"w0\"\nlatency = \"1ms\"\n";
  CHECK(refusal({}, {}, real) == "accepted");
  CHECK(refusal({}, {}, real + real) == "accepted");
  CHECK(refusal({}, {}, emulated).find("link.0.latency was unset and is \"1ms\"") != std::string::npos);
  CHECK(refusal({}, {}, real + emulated).find("link.1.latency was unset and is \"1ms\"") != std::string::npos);
}

TEST_CASE("any other change is refused with the key and both values") {
  CHECK(refusal({"optimizer.momentum=0.5"}) ==
        start + "optimizer.momentum was 0.0 and is 0.5; expected the same values");
  CHECK(refusal({"workers.count=5"}).starts_with(start + "workers.count was 4 and is 5; "));
  CHECK(refusal({"run.seed=1", "run.threads=2"})
            .starts_with(start + "run.seed was 0 and is 1; run.threads was 1 and is 2; "));
  CHECK(refusal({"workers.loop=[\"ring\", \"gradient\", \"apply\"]"}).starts_with(start + "workers.loop was ["));
  CHECK(refusal({"run.seed=1", "run.threads=2", "optimizer.momentum=0.5", "data.batch_size=1", "evaluate.top_k=2",
                 "evaluate.batch_size=2", "model.loss=mse"})
            .ends_with("; and 2 more; expected the same values"));
  const std::string second = "[[exchange]]\nname = \"all\"\nkind = \"gossip\"\n";
  CHECK(refusal({}, {}, second).find("exchange.all.kind was unset and is \"gossip\"") != std::string::npos);
}

TEST_CASE("what has changed is returned, except for placement") {
  const auto changed = topology::check_resumable(
      topology::canonical(topology::parse(text, "t.toml")),
      topology::parse(text + "[[node]]\nname = \"a\"\nworkers = 4\n", "t.toml",
                      {"optimizer.lr=0.5", "exchange.ring.every=3", "evaluate.patience=5", "run.timeout=5s"}),
      "runs/a");
  std::vector<std::string> all;
  for (const auto& each : changed) all.push_back(described(each) + (each.of_training ? "" : " (not of training)"));
  CHECK(all == std::vector<std::string>{
                   "evaluate.patience was unset and is 5", "exchange.every was \"2 steps\" and is \"3 steps\"",
                   "optimizer.lr was 0.01 and is 0.5", "run.timeout was \"60s\" and is \"5s\" (not of training)"});
}

TEST_CASE("a key that a checkpoint lacks had its default") {
  const auto continued = [&](const std::vector<std::string>& lacks,
                             const std::vector<std::string>& now) -> std::string {
    std::string before;
    std::istringstream lines(topology::canonical(topology::parse(text, "t.toml")));
    for (std::string line; std::getline(lines, line);)
      if (std::none_of(lacks.begin(), lacks.end(), [&](const auto& key) { return line.starts_with(key + " = "); }))
        before += line + "\n";
    try {
      topology::check_resumable(before, topology::parse(text, "t.toml", now), "runs/a");
    } catch (const input_error& reason) {
      return reason.what();
    }
    return "accepted";
  };
  const std::vector<std::string> newer{"run.budget", "optimizer.scale_lr", "exchange.0.encoding", "data.threads"};
  CHECK(continued(newer, {}) == "accepted");
  CHECK(continued(newer, {"run.budget=worker", "exchange.ring.encoding=float32"}) == "accepted");
  CHECK(continued(newer, {"run.budget=total"}).find("run.budget was unset and is \"total\"") != std::string::npos);
  // data.alpha has a value only because of the other key, so only that key is reported.
  CHECK(continued({"data.alpha"}, {"data.split=dirichlet"}).find("data.alpha") == std::string::npos);
  CHECK(continued({"exchange.0.kind"}, {}).find("exchange.kind was unset and is \"gossip\"") != std::string::npos);
}

TEST_CASE("the length is fixed where the learning rate depends on it") {
  for (const std::string schedule : {"cosine", "polynomial"}) {
    const auto key = "optimizer.schedule=" + schedule;
    CHECK(refusal({key}, {key}) == "accepted");
    CHECK(refusal({key, "run.epochs=3"}, {key}) ==
          start +
              "run.epochs was 2 and is 3 (the learning rate depends on the length of the run: "
              "optimizer.schedule = \"" +
              schedule + "\"); expected the same values");
  }
  const std::vector<std::string> steps{"optimizer.schedule=step", "optimizer.decay_epochs=[1.0]"};
  CHECK(refusal({steps[0], steps[1], "run.epochs=3"}, steps) == "accepted");
}

TEST_CASE("long values that differ only at the end are different, and foreign text is printed safely") {
  const std::string name(58, 'x');
  const auto long_file = [&](const std::string& end) {
    return std::vector<std::string>{"exchange.ring.name=" + name + end};
  };
  const std::vector<std::string> loop{"workers.loop=[\"gradient\", \"apply\", \"" + name};
  auto with = [&](const std::string& end) {
    auto all = long_file(end);
    all.push_back(loop[0] + end + "\"]");
    return all;
  };
  CHECK(refusal(with("a"), with("b")).find("exchange.name was") != std::string::npos);
  try {
    topology::check_resumable("\x1b[31m = \x07\nrun.seed", topology::parse(text, "t.toml"), "out");
    CHECK(false);
  } catch (const input_error& reason) {
    CHECK(std::string(reason.what()).find('\x1b') == std::string::npos);
    CHECK(std::string(reason.what()).find('\x07') == std::string::npos);
  }
}

}  // namespace topology_resumable_test
