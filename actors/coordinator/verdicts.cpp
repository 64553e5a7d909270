#include "troupe/actors/coordinator/verdicts.hpp"

#include "troupe/algorithms/messages/message_state.hpp"

#include <cmath>

namespace troupe::rules {

verdicts::verdict verdicts::on(const evaluation& found) {
  verdict result;
  const auto merit = found.accuracy.value_or(-found.loss);
  result.best = !std::isnan(merit) && (!best_merit_ || merit > *best_merit_);
  if (result.best) best_merit_ = merit;
  if (options_.target_accuracy) {
    target_reached_ = found.accuracy >= *options_.target_accuracy ? target_reached_ + 1 : 0;
    if (target_reached_ >= options_.target_hold) result.stopped_by = "target_accuracy";
  }
  without_improvement_ = result.best ? 0 : without_improvement_ + 1;
  const auto is_exhausted = options_.patience && without_improvement_ >= *options_.patience;
  if (is_exhausted && result.stopped_by.empty()) result.stopped_by = "patience";
  return result;
}

state_dict verdicts::state() const {
  state_dict saved;
  put_if_any(saved, "best_merit", best_merit_);
  saved.put_count("target_reached", target_reached_);
  put_if_any(saved, "target_accuracy", options_.target_accuracy);
  saved.put_count("without_improvement", without_improvement_);
  return saved;
}

void verdicts::restore(const state_dict& from) {
  best_merit_ = find_if_any<double>(from, "best_merit");
  // A continued run may have another target, for which nothing was counted.
  const auto target = find_if_any<double>(from, "target_accuracy");
  target_reached_ = !target || target == options_.target_accuracy ? from.count("target_reached") : 0;
  without_improvement_ = from.count("without_improvement");
}

}  // namespace troupe::rules
