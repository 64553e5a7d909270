#include "troupe/algorithms/rules/evaluate.hpp"

#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe::rules {

namespace {

/// Returns whether the output has a score for each class. Otherwise, one score separates two classes.
bool has_score_of_each(const models::loss_function& loss) {
  return loss.takes(models::loss_input::class_scores);
}

/// Returns the predicted class of each sample: [N], or [N, T] for text.
at::Tensor classes_of(const models::loss_function& loss, const at::Tensor& output) {
  return has_score_of_each(loss) ? output.argmax(-1) : output.gt(0).to(at::kLong);
}

void add_to(std::vector<class_counts>& counts, const at::Tensor& predicted, const at::Tensor& targets) {
  const auto classes = static_cast<std::int64_t>(counts.size());
  const auto tally = [&](const at::Tensor& which) { return which.flatten().bincount({}, classes); };
  const auto samples = tally(targets), taken = tally(predicted),
             correct = tally(targets.masked_select(predicted.eq(targets)));
  for (std::int64_t i = 0; i < classes; ++i) {
    auto& entry = counts[static_cast<std::size_t>(i)];
    entry.samples += samples[i].item<std::int64_t>();
    entry.found += taken[i].item<std::int64_t>();
    entry.correct += correct[i].item<std::int64_t>();
  }
}

/// Sums over the samples of a share, or sums of the means of all shares.
struct sums {
  double loss{0}, correct{0}, in_top_k{0}, targets{0};
  bool has_classes{true};

  void add(const models::loss_function& kind, const at::Tensor& output, const at::Tensor& target,
           std::optional<std::int64_t> top_k, std::vector<class_counts>* by_class) {
    loss += models::mean_loss(kind, output, target).item<double>() * static_cast<double>(target.size(0));
    targets += static_cast<double>(target.numel());
    const auto right = models::count_correct(kind, output, target);
    has_classes = right.has_value();
    if (!has_classes) return;
    correct += static_cast<double>(*right);
    if (top_k) in_top_k += static_cast<double>(*models::count_correct(kind, output, target, *top_k));
    if (!by_class) return;
    if (by_class->empty()) by_class->resize(static_cast<std::size_t>(has_score_of_each(kind) ? output.size(-1) : 2));
    add_to(*by_class, classes_of(kind, output), target);
  }
};

/// Returns the indices of samples [first, first + count) of share `which`; the set is repeated after its end.
std::vector<std::int64_t> indices_of(std::int64_t samples, std::int64_t which, std::int64_t shares, std::int64_t first,
                                     std::int64_t count) {
  std::vector<std::int64_t> indices;
  for (auto i = first; i < first + count; ++i) indices.push_back((which + i * shares) % samples);
  return indices;
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

std::int64_t samples_per_share(std::int64_t samples, const evaluation_options& how) {
  return (samples + how.shares - 1) / how.shares;
}

std::int64_t evaluated_samples(std::int64_t samples, const evaluation_options& how) {
  const auto share = samples_per_share(samples, how);
  return how.shares * (how.drop_last ? share / how.batch_size * how.batch_size : share);
}

std::optional<evaluation> evaluate(models::network& net, const data::dataset& set, const data::normalisation& scale,
                                   const models::loss_function& loss, const evaluation_options& how,
                                   const std::atomic<bool>* cancelled, std::vector<class_counts>* by_class) {
  const c10::NoGradGuard no_gradients;
  net.train(false);
  const auto samples = evaluated_samples(set.size(), how), share = samples / how.shares;
  if (samples < 1)
    throw std::invalid_argument("a share of " + std::to_string(samples_per_share(set.size(), how)) +
                                " samples does not fill an evaluation batch of " + std::to_string(how.batch_size) +
                                "; reduce evaluate.batch_size or set evaluate.drop_last = false");
  sums whole;
  for (std::int64_t which = 0; which < how.shares; ++which) {
    sums of_share;
    for (std::int64_t first = 0; first < share; first += how.batch_size) {
      if (cancelled && *cancelled) return std::nullopt;
      const auto count = std::min(how.batch_size, share - first);
      const auto batch = data::make_batch(set, scale, indices_of(set.size(), which, how.shares, first, count));
      of_share.add(loss, net.forward(batch.inputs), batch.targets, how.top_k, by_class);
    }
    whole.has_classes = of_share.has_classes;
    whole.loss += of_share.loss / static_cast<double>(share);
    whole.correct += of_share.correct / of_share.targets;
    whole.in_top_k += of_share.in_top_k / of_share.targets;
  }
  const auto shares = static_cast<double>(how.shares);
  evaluation result{.loss = whole.loss / shares, .sample_count = samples};
  if (whole.has_classes) result.accuracy = whole.correct / shares;
  if (whole.has_classes && how.top_k) result.top_k_accuracy = whole.in_top_k / shares;
  return result;
}

}  // namespace troupe::rules
