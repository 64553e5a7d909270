#include "troupe/actors/coordinator/run_totals.hpp"

#include "tests/support/doctest.hpp"

#include <ATen/ops/full.h>

#include <chrono>
#include <limits>

namespace run_totals_test {

namespace {

using namespace troupe;
using namespace troupe::rules;
using std::chrono::seconds;

/// Two workers, 20 steps, epochs of 10, evaluated every 5, started at 100 s.
run_totals two_workers() {
  run_totals totals{{.when = {.steps = 20, .steps_per_epoch = 10, .evaluate_every = 5}, .workers = 2, .lr = 0.5}};
  totals.clock.begin(run_clock::time_point{seconds{100}});
  return totals;
}

milestone of(std::uint32_t rank, std::uint64_t step, double loss_sum, std::uint64_t bytes) {
  return {.rank = rank_id{rank},
          .step = step,
          .loss_sum = loss_sum,
          .sample_count = 4,
          .correct = 1,
          .classified = 4,
          .bytes_sent = bytes,
          .data_wait = 1,
          .busy = 4};
}

/// Returns the report of milestones that have just arrived.
report report_of(run_totals& totals, std::uint64_t step, const std::vector<milestone>& all, int second) {
  for (const auto& one : all) totals.count_arrival(one);
  return totals.report_of(step, all, run_clock::time_point{seconds{second}});
}

}  // namespace

TEST_CASE("a report covers what was trained since the last one, an epoch what was trained in it") {
  auto totals = two_workers();
  const auto first = report_of(totals, 5, {of(0, 5, 8, 100), of(1, 5, 16, 200)}, 104);
  CHECK(first.line.train_loss == 3);  // 24 over 8 samples
  CHECK(first.line.train_accuracy == 0.25);
  CHECK(first.line.bytes_sent == 300);
  CHECK(first.line.samples_per_second == 2);  // 8 in 4 s
  CHECK(first.line.data_wait == 0.25);
  CHECK(first.line.lr == 0.5);
  CHECK((first.evaluated && !first.epoch_ends));
  CHECK(totals.reported() == 5);

  const auto second = report_of(totals, 10, {of(0, 10, 0, 150), of(1, 10, 8, 250)}, 106);
  CHECK(second.line.train_loss == 1);
  CHECK(second.line.bytes_sent == 400);
  REQUIRE(second.line.workers.size() == 2);
  CHECK(second.line.workers[1].bytes_sent == 250);
  CHECK(totals.end_of(second.line, "done").workers.size() == 2);
  CHECK(second.line.samples_per_second == 4);
  CHECK(second.line.epoch == 1);
  REQUIRE(second.epoch_ends);
  CHECK(second.epoch_train_loss == 2);  // 32 over 16 samples
  CHECK(second.epoch_seconds == 6);

  const auto end = totals.end_of(second.line, "done");
  CHECK(end.event == "end");
  CHECK(end.train_loss == 1);  // as last reported
  CHECK(end.samples_per_second == 16.0 / 6);
}

TEST_CASE("updates of shares are those that all have made, updates of replicas are added up") {
  auto totals = two_workers();
  const auto held = [](std::uint64_t version, staleness_tally staleness) {
    return holding{.piece = {0, at::full({2}, 1.0)}, .version = version, .staleness = std::move(staleness)};
  };
  record line;
  totals.count_updates({held(7, {.counts = {2, 2}, .applied = 4, .sum = 2, .most = 1}), held(6, {}), holding{}}, false,
                       line);
  CHECK(line.updates == 6);
  CHECK(line.staleness_mean == 0.5);
  CHECK(line.staleness_counts == std::vector<std::uint64_t>{2, 2});
  record next;
  totals.count_updates({held(9, {.counts = {2, 3}, .applied = 5, .sum = 3, .most = 1}), held(8, {})}, true, next);
  CHECK(next.updates == 17);
  CHECK(next.staleness_mean == 1);  // one gradient since the last line
  CHECK(totals.end_of(next, "done").staleness_mean == 0.6);
}

TEST_CASE("the largest consensus distance before an exchange is reported at the end; it is NaN after one NaN") {
  auto totals = two_workers();
  record line;
  totals.note_distances({.distance = 1, .distance_before = 3}, line);
  totals.note_distances({.distance = 5, .distance_before = 2, .distance_after = 4}, line);
  CHECK(line.consensus_distance == 5);
  CHECK(line.consensus_distance_after == 4);
  CHECK(totals.end_of(line, "done").consensus_distance_max == 3);
  totals.note_distances({.distance_before = std::numeric_limits<double>::quiet_NaN()}, line);
  totals.note_distances({.distance_before = 9}, line);
  CHECK(std::isnan(*totals.end_of(line, "done").consensus_distance_max));
}

TEST_CASE("restored totals go on from the saved ones, and so does the clock") {
  const auto milestones = [](std::uint64_t step) {
    auto all = std::vector{of(0, step, 8 * static_cast<double>(step), 100 * step), of(1, step, 1, step)};
    all[1].cpu = 2;
    all[1].loading_cpu = 0.5;
    return all;
  };
  const auto at = [](int second) { return run_clock::time_point{seconds{second}}; };
  auto whole = two_workers();
  report_of(whole, 5, milestones(5), 104);
  record line;
  whole.note_distances({.distance = 1, .distance_before = 3}, line);
  whole.clock.hold(at(104));
  run_totals restored{{.when = {.steps = 20, .steps_per_epoch = 10, .evaluate_every = 5}, .workers = 2, .lr = 0.5}};
  restored.restore(whole.state(at(105)), at(1005));
  CHECK(restored.reported() == 5);
  CHECK(restored.line_at(7, at(1005)).seconds == 5);
  CHECK(restored.line_at(7, at(1005)).bytes_sent == 505);
  whole.clock.release(at(106));
  restored.clock.release(at(1006));
  const auto expected = report_of(whole, 10, milestones(10), 108);
  const auto found = report_of(restored, 10, milestones(10), 1008);
  CHECK(found.line.seconds == expected.line.seconds);
  CHECK(found.line.train_seconds == expected.line.train_seconds);
  CHECK(found.line.train_seconds == 6);  // 2 s were spent waiting
  CHECK(found.line.samples_per_second == expected.line.samples_per_second);
  CHECK(found.line.train_loss == expected.line.train_loss);
  CHECK(found.epoch_train_loss == expected.epoch_train_loss);
  CHECK(found.epoch_seconds == expected.epoch_seconds);
  CHECK(restored.end_of(found.line, "done").consensus_distance_max == 3);
  const auto second = restored.end_of(found.line, "done").workers.at(1);
  CHECK((second.cpu == 4 && second.loading_cpu == 1));
  CHECK(restored.end_of(found.line, "done").samples_per_second ==
        whole.end_of(expected.line, "done").samples_per_second);
}

TEST_CASE("speed is that at which workers train, also where they are far apart") {
  auto totals = two_workers();
  totals.count_arrival(of(0, 5, 0, 0));
  totals.count_arrival(of(0, 10, 0, 0));  // belongs to a later report: the other worker has not begun
  totals.count_arrival(of(1, 5, 0, 0));
  const auto first = totals.report_of(5, {of(0, 5, 0, 0), of(1, 5, 0, 0)}, run_clock::time_point{seconds{112}});
  totals.count_arrival(of(1, 10, 0, 0));
  const auto second = totals.report_of(10, {of(0, 10, 0, 0), of(1, 10, 0, 0)}, run_clock::time_point{seconds{116}});
  CHECK(first.line.samples_per_second == 1);   // 12 samples in 12 s
  CHECK(second.line.samples_per_second == 1);  // 4 samples in 4 s, although 8 belong to this report
}

}  // namespace run_totals_test
