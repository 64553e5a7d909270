#include "troupe/actors/worker/worker_progress.hpp"

#include "troupe/algorithms/messages/message_state.hpp"

#include <ATen/core/Tensor.h>

namespace troupe {

std::optional<snapshot> worker_progress::after_mixing() const {
  if (!contributed || !mixed) return std::nullopt;
  auto result = *contributed;
  result.taken = snapshot_time::after_mixing;
  result.values = contributed->values.clone();
  for (const auto& piece : mixed->pieces) {
    auto own = result.values.narrow(0, piece.first, piece.values.numel());
    mixed->what == slot::change ? own.add_(piece.values) : own.copy_(piece.values);
  }
  return result;
}

state_dict worker_progress::state() const {
  state_dict saved;
  saved.put_all("x", state_of(now));
  put_if_any(saved, "g", gradient);
  saved.put_count("completed", completed);
  saved.put_all("tally", state_of(tally));
  saved.put_counts("payload_bytes", payload_bytes);
  put_if_any(saved, "reported", reported);
  put_if_any(saved, "shown", shown);
  put_if_any(saved, "contributed", contributed);
  put_if_any(saved, "mixed", after_mixing());
  std::vector<std::uint64_t> assigned;
  for (const auto& batches : reports.assigned)
    assigned.insert(assigned.end(), {batches.first_step, batches.first_batch, batches.count});
  saved.put_counts("assigned", assigned);
  return saved;
}

void worker_progress::restore(const state_dict& from, run_id run) {
  const auto elements = now.values.numel();
  troupe::restore(now, from.all("x"));
  if (now.values.numel() != elements) throw state_error("the worker's parameters belong to another model");
  gradient = find_if_any<part>(from, "g");
  contributed = find_if_any<snapshot>(from, "contributed");
  mixed.reset();
  if (const auto after = find_if_any<snapshot>(from, "mixed"))
    mixed = outcome{.what = slot::parameters, .pieces = {{0, after->values}}};
  now.origin.run = run;
  if (gradient) gradient->origin.run = run;
  if (contributed) contributed->origin.run = run;
  completed = from.count("completed");
  troupe::restore(tally, from.all("tally"));
  payload_bytes = from.counts("payload_bytes", payload_bytes.size());
  reported = find_if_any<std::uint64_t>(from, "reported");
  shown = find_if_any<std::uint64_t>(from, "shown");
  reports.assigned.clear();
  const auto assigned = from.counts("assigned");
  for (std::size_t i = 0; i + 2 < assigned.size(); i += 3)
    reports.assigned.push_back({assigned[i], assigned[i + 1], assigned[i + 2]});
}

}  // namespace troupe
