#include "troupe/actors/coordinator/verdicts.hpp"

#include "troupe/algorithms/messages/message_state.hpp"

#include <cmath>

namespace troupe::rules {

verdicts::verdict verdicts::on(const evaluation& found) {
  verdict made;
  const auto merit = found.accuracy.value_or(-found.loss);
  made.best = !std::isnan(merit) && (!best_merit_ || merit > *best_merit_);
  if (made.best) best_merit_ = merit;
  if (options_.target_accuracy) {
    target_reached_ = found.accuracy >= *options_.target_accuracy ? target_reached_ + 1 : 0;
    if (target_reached_ >= options_.target_hold) made.stopped_by = "target_accuracy";
  }
  without_improvement_ = made.best ? 0 : without_improvement_ + 1;
  const auto is_exhausted = options_.patience && without_improvement_ >= *options_.patience;
  if (is_exhausted && made.stopped_by.empty()) made.stopped_by = "patience";
  return made;
}

state_dict verdicts::state() const {
  state_dict made;
  put_if_any(made, "best_merit", best_merit_);
  made.put_count("target_reached", target_reached_);
  put_if_any(made, "target_accuracy", options_.target_accuracy);
  made.put_count("without_improvement", without_improvement_);
  return made;
}

void verdicts::restore(const state_dict& from) {
  best_merit_ = find_if_any<double>(from, "best_merit");
  // A run that is continued may have another target, which was not counted.
  const auto target = find_if_any<double>(from, "target_accuracy");
  target_reached_ = !target || target == options_.target_accuracy ? from.count("target_reached") : 0;
  without_improvement_ = from.count("without_improvement");
}

}  // namespace troupe::rules
