#include "troupe/actors/coordinator/verdicts.hpp"

#include "tests/support/doctest.hpp"

#include <limits>
#include <vector>

namespace verdicts_test {

namespace {

using namespace troupe;

/// Returns the number of the evaluation that stops the run, from 1, or 0 if none does.
std::size_t stop_of(const rules::stop_options& options, const std::vector<double>& accuracies) {
  rules::verdicts verdicts{options};
  for (std::size_t i = 0; i < accuracies.size(); ++i)
    if (!verdicts.on({.loss = 1, .accuracy = accuracies[i]}).stopped_by.empty()) return i + 1;
  return 0;
}

}  // namespace

TEST_CASE("the best result is the most accurate, the first of equals, or without accuracies that of the least loss") {
  rules::verdicts by_accuracy, by_loss;
  CHECK(by_accuracy.on({.loss = 9, .accuracy = 0.5}).best);
  CHECK_FALSE(by_accuracy.on({.loss = 1, .accuracy = 0.5}).best);
  CHECK(by_accuracy.on({.loss = 9, .accuracy = 0.6}).best);
  CHECK(by_loss.on({.loss = 2}).best);
  CHECK_FALSE(by_loss.on({.loss = std::numeric_limits<double>::quiet_NaN()}).best);
  CHECK_FALSE(by_loss.on({.loss = 3}).best);
  CHECK(by_loss.on({.loss = 1}).best);
}

TEST_CASE("a target stops a run once it was reached so many times in a row") {
  CHECK(stop_of({}, {0.9, 0.9, 0.9}) == 0);
  CHECK(stop_of({.target_accuracy = 0.8}, {0.8, 0.7, 0.8, 0.9, 0.9}) == 4);
  CHECK(stop_of({.target_accuracy = 0.8, .target_hold = 1}, {0.7, 0.8}) == 2);
}

TEST_CASE("patience ends after so many evaluations in a row without improvement") {
  CHECK(stop_of({.patience = 2}, {0.5, 0.4, 0.6, 0.6, 0.5}) == 5);
  CHECK(stop_of({.target_accuracy = 0.9, .patience = 1}, {0.5, 0.5}) == 2);
  rules::verdicts both{{.target_accuracy = 0.9, .target_hold = 2, .patience = 1}};
  CHECK(both.on({.loss = 1, .accuracy = 0.95}).stopped_by.empty());
  CHECK(both.on({.loss = 1, .accuracy = 0.95}).stopped_by == "target_accuracy");
}

TEST_CASE("restored verdicts count the evaluations before") {
  troupe::rules::verdicts before{{.patience = 2}};
  const auto accuracy = [](double value) { return troupe::evaluation{.accuracy = value}; };
  CHECK(before.on(accuracy(0.5)).best);
  CHECK(before.on(accuracy(0.4)).stopped_by.empty());
  troupe::rules::verdicts after{{.patience = 2}};
  after.restore(before.state());
  const auto found = after.on(accuracy(0.45));
  CHECK_FALSE(found.best);
  CHECK(found.stopped_by == "patience");
}

}  // namespace verdicts_test
