#include "troupe/algorithms/messages/report.hpp"

#include <limits>

namespace troupe::rules {

void report::take(const evaluation& next) {
  if (!found) {
    found = next;
    return;
  }
  replicas.pop_front();
  line.val_accuracy_workers.push_back(next.accuracy.value_or(std::numeric_limits<double>::quiet_NaN()));
}

report_action next_action(const report& one, const report_needs& needs) {
  const auto is_whole = one.result && one.result->values.numel() == needs.elements;
  if ((needs.from_servers && !one.result) || (needs.whole && !is_whole)) return report_action::assemble;
  if (needs.evaluated && !one.found) return report_action::evaluate_result;
  if (needs.evaluated && !one.replicas.empty()) return report_action::evaluate_replica;
  return report_action::write;
}

}  // namespace troupe::rules
