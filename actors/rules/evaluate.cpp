#include "troupe/actors/rules/evaluate.hpp"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace troupe::rules {

namespace {

/// Else one score tells two classes apart.
bool has_score_of_each(models::loss_kind loss) {
  return loss == models::loss_kind::cross_entropy || loss == models::loss_kind::nll;
}

/// Of each sample the class that it is taken for: [N], or of a text [N, T].
at::Tensor classes_of(models::loss_kind loss, const at::Tensor& output) {
  return has_score_of_each(loss) ? output.argmax(-1) : output.gt(0).to(at::kLong);
}

void add_to(std::vector<class_counts>& counts, const at::Tensor& found, const at::Tensor& targets) {
  const auto classes = static_cast<std::int64_t>(counts.size());
  const auto tally = [&](const at::Tensor& which) { return which.flatten().bincount({}, classes); };
  const auto samples = tally(targets), taken = tally(found), correct = tally(targets.masked_select(found.eq(targets)));
  for (std::int64_t i = 0; i < classes; ++i) {
    auto& one = counts[static_cast<std::size_t>(i)];
    one.samples += samples[i].item<std::int64_t>();
    one.found += taken[i].item<std::int64_t>();
    one.correct += correct[i].item<std::int64_t>();
  }
}

double ratio(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

}  // namespace

class_merit merit_of(const class_counts& counts) {
  const auto correct = static_cast<double>(counts.correct), found = static_cast<double>(counts.found),
             samples = static_cast<double>(counts.samples);
  return {
      .precision = ratio(correct, found), .recall = ratio(correct, samples), .f1 = ratio(2 * correct, found + samples)};
}

std::optional<evaluation> evaluate(models::network& net, const data::dataset& set, const data::normalisation& scale,
                                   models::loss_kind loss, std::int64_t batch_size, const std::atomic<bool>* cancelled,
                                   std::optional<std::int64_t> top_k, std::vector<class_counts>* by_class) {
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
    if (by_class && has_classes) {
      if (by_class->empty()) by_class->resize(static_cast<std::size_t>(has_score_of_each(loss) ? output.size(-1) : 2));
      add_to(*by_class, classes_of(loss, output), batch.targets);
    }
    if (top_k) in_top_k += models::count_correct(loss, output, batch.targets, *top_k).value_or(0);
  }
  found.sample_count = set.size();
  found.loss = loss_sum / static_cast<double>(set.size());
  if (has_classes) found.accuracy = static_cast<double>(correct) / static_cast<double>(counted);
  if (has_classes && top_k) found.top_k_accuracy = static_cast<double>(in_top_k) / static_cast<double>(counted);
  return found;
}

}  // namespace troupe::rules
