// What the coordinator records: losses, learning rates and times.
#include "tests/support/doctest.hpp"
#include "tests/support/rehearsal.hpp"

#include "troupe/actors/coordinator/coordinator.hpp"

#include <caf/all.hpp>

#include <chrono>
#include <cstdint>
#include <vector>

namespace coordinator_records_test {

namespace {

using namespace troupe;
using namespace troupe::testing;
using std::chrono::seconds;

/// Makes each evaluation take so long, in virtual time.
void slow_down_evaluations(rehearsal& here, seconds by) {
  here.all->verdict = [&here, by](const snapshot& weights) {
    here.scheduler.clock().advance_time(by);
    return evaluation{.step = weights.origin.step, .loss = 1, .accuracy = 0.5, .sample_count = 1};
  };
}

/// Returns the training times of the evaluations, in order.
std::vector<double> train_seconds_of(const heard& all) {
  std::vector<double> times;
  for (const auto& line : all.lines)
    if (line.event == "evaluation") times.push_back(line.train_seconds);
  return times;
}

}  // namespace

TEST_CASE("lines say the learning rate of the step before, and the share of time that computes waited for data") {
  coordinator_options options;
  options.lr = 2;
  options.lr_over_time = {.warmup_steps = 4, .warmup_start = 0};
  rehearsal here{true, options};
  here.show(0, 1, 1);
  here.reach(0, 1, 0.5, 4);
  here.reach(1, 1, 1.5, 4);
  here.complete(2, 2);
  const auto& lines = here.all->lines;
  REQUIRE(lines.size() == 3);
  CHECK(!lines[0].lr);
  CHECK(lines[1].lr == 0);
  CHECK(lines[1].data_wait == 0.25);
  CHECK(lines[2].lr == 0.5);
  CHECK(!lines[2].data_wait);  // nothing was measured
  here.complete(3, 3);
  here.complete(4, 4);
  CHECK(here.all->lines.back().event == "end");
  CHECK(here.all->lines.back().lr == 1.5);
  CHECK(here.all->lines.back().data_wait == 0.25);  // of the whole run
}

TEST_CASE("training time leaves out what workers wait for an evaluation") {
  const auto run_of = [](rehearsal& here) {
    slow_down_evaluations(here, seconds(3));
    for (std::uint64_t step = 1; step <= 4; ++step) {
      here.scheduler.clock().advance_time(seconds(2));
      here.complete(step, 1);
    }
    CHECK(train_seconds_of(*here.all) == std::vector<double>{2, 4, 6, 8});
    const auto& lines = here.all->lines;
    for (const auto& line : lines) {
      if (line.event == "start") continue;
      CHECK(line.samples_per_second == 1);  // two samples in two seconds, also of the whole run
      if (line.event == "epoch") CHECK(line.epoch_seconds == 8);
    }
    CHECK(lines.back().seconds == 8 + 3 * 3);  // the last evaluation comes after the last step
    CHECK(lines.back().train_seconds == 8);
  };
  SUBCASE("because they pause for it") {
    rehearsal here{true, pausing()};
    run_of(here);
  }
  SUBCASE("because its verdict may stop them") {
    rehearsal here{true, stopping(9, {})};
    run_of(here);
  }
}

TEST_CASE("an evaluation that workers do not wait for is no break in their training") {
  rehearsal here{true};
  slow_down_evaluations(here, seconds(3));
  for (std::uint64_t step = 1; step <= 4; ++step) {
    here.scheduler.clock().advance_time(seconds(2));
    here.complete(step, 1);
  }
  CHECK(train_seconds_of(*here.all) == std::vector<double>{2, 7, 12, 17});
  CHECK(here.all->lines.back().train_seconds == here.all->lines.back().seconds);
}

TEST_CASE("training time stands still once two snapshots wait for the evaluator, and goes on with the next grant") {
  rehearsal here{true};
  const auto both_reach = [&](std::uint64_t step) {
    here.scheduler.clock().advance_time(seconds(2));
    here.reach(0, step);
    here.scheduler.clock().advance_time(seconds(1));  // rank 0 waits for rank 1, which is training
    here.reach(1, step);
  };
  both_reach(1);
  both_reach(2);
  here.scheduler.clock().advance_time(seconds(5));
  here.show(0, 1, 1);
  both_reach(3);
  here.show(0, 2, 1);
  both_reach(4);
  here.show(0, 3, 1);
  here.show(0, 4, 1);
  CHECK(train_seconds_of(*here.all) == std::vector<double>{3, 6, 9, 12});
  CHECK(here.all->lines.back().seconds == 17);
}

TEST_CASE("the loss since the last event is on every line, that of a whole epoch on its own") {
  rehearsal here{true};
  const auto report = [&](std::uint32_t rank, std::uint64_t step, double loss_sum, std::int64_t correct) {
    caf::anon_send(here.coordinator, milestone{.rank = rank_id{rank},
                                               .step = step,
                                               .loss_sum = loss_sum,
                                               .sample_count = 4,
                                               .correct = step == 3 ? 0 : correct,
                                               .classified = step == 3 ? 0 : 8});
    here.run();
  };
  for (std::uint64_t step = 1; step <= 4; ++step) {
    report(0, step, 4.0 * static_cast<double>(step), static_cast<std::int64_t>(step));
    report(1, step, 12.0 * static_cast<double>(step), 4);
    here.show(0, step, 1);
  }
  constexpr double none = -1;
  std::vector<double> losses, accuracies, of_epochs;
  for (const auto& line : here.all->lines) {
    losses.push_back(line.train_loss.value_or(none));
    accuracies.push_back(line.train_accuracy.value_or(none));
    of_epochs.push_back(line.epoch_train_loss.value_or(none));
  }
  // start, four evaluations of 8 samples each, the epoch, the end
  CHECK(losses == std::vector<double>{none, 2, 4, 6, 8, 8, 8});
  CHECK(accuracies == std::vector<double>{none, 5 / 16.0, 6 / 16.0, none, 8 / 16.0, 8 / 16.0, 8 / 16.0});
  CHECK(of_epochs == std::vector<double>{none, none, none, none, none, 5, none});
}

TEST_CASE("an epoch says how long it took, other lines do not") {
  rehearsal here{true};
  here.complete(1, 1);
  here.complete(2, 2);
  here.scheduler.clock().advance_time(std::chrono::seconds(5));
  here.complete(3, 3);
  here.complete(4, 4);
  for (const auto& line : here.all->lines) {
    CAPTURE(line.event);
    CHECK(line.epoch_seconds.has_value() == (line.event == "epoch"));
    if (line.epoch_seconds) CHECK(*line.epoch_seconds == doctest::Approx(5));
  }
}

}  // namespace coordinator_records_test
