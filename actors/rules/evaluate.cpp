#include "troupe/actors/rules/evaluate.hpp"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace troupe::rules {

std::optional<evaluation> evaluate(models::network& net, const data::dataset& set, const data::normalisation& scale,
                                   models::loss_kind loss, std::int64_t batch_size, const std::atomic<bool>* cancelled,
                                   std::optional<std::int64_t> top_k) {
  const c10::NoGradGuard no_gradients;
  net.train(false);
  evaluation found;
  double loss_sum = 0;
  std::int64_t correct = 0, in_top_k = 0, counted = 0;
  bool has_classes = true;
  for (std::int64_t first = 0; first < set.size(); first += batch_size) {
    if (cancelled && *cancelled) return std::nullopt;
    const auto count = std::min(batch_size, set.size() - first);
    std::vector<std::int64_t> indices(static_cast<std::size_t>(count));
    std::iota(indices.begin(), indices.end(), first);
    const auto batch = data::make_batch(set, scale, indices);
    const auto output = net.forward(batch.inputs);
    loss_sum += models::mean_loss(loss, output, batch.targets).item<double>() * static_cast<double>(count);
    const auto more = models::count_correct(loss, output, batch.targets);
    has_classes = more.has_value();
    correct += more.value_or(0);
    counted += batch.targets.numel();
    if (top_k) in_top_k += models::count_correct(loss, output, batch.targets, *top_k).value_or(0);
  }
  found.sample_count = set.size();
  found.loss = loss_sum / static_cast<double>(set.size());
  if (has_classes) found.accuracy = static_cast<double>(correct) / static_cast<double>(counted);
  if (has_classes && top_k) found.top_k_accuracy = static_cast<double>(in_top_k) / static_cast<double>(counted);
  return found;
}

}  // namespace troupe::rules
