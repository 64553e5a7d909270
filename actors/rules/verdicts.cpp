#include "troupe/actors/rules/verdicts.hpp"

#include <cmath>

namespace troupe::rules {

verdicts::verdict verdicts::on(const evaluation& found) {
  verdict made;
  const auto merit = found.accuracy.value_or(-found.loss);
  made.best = !std::isnan(merit) && (!best_merit_ || merit > *best_merit_);
  if (made.best) best_merit_ = merit;
  if (options_.target_accuracy) {
    target_reached_ = found.accuracy >= *options_.target_accuracy ? target_reached_ + 1 : 0;
    made.stops = target_reached_ >= options_.target_hold;
  }
  if (options_.patience) {
    without_improvement_ = made.best ? 0 : without_improvement_ + 1;
    made.stops = made.stops || without_improvement_ >= *options_.patience;
  }
  return made;
}

}  // namespace troupe::rules
