#include "troupe/models/losses/loss.hpp"

#include "troupe/files/kind_list.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/nll_loss.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace troupe::models {

namespace {

kind_list<loss_kind>& losses() {
  static kind_list<loss_kind> all{
      "a loss",
      {{.name = "cross_entropy",
        .explanation = "Cross-entropy of scores, one for each class: softmax, then negative log-likelihood.",
        .mean = [](const at::Tensor& output, const at::Tensor& target,
                   const setting_values&) { return at::cross_entropy_loss(output, target); },
        .takes = loss_input::class_scores,
        .called = "cross-entropy"},
       {.name = "nll",
        .explanation = "Negative log-likelihood of log-probabilities, one for each class.",
        .mean = [](const at::Tensor& output, const at::Tensor& target,
                   const setting_values&) { return at::nll_loss(output, target); },
        .takes = loss_input::class_scores,
        .called = "negative log-likelihood"},
       {.name = "binary_cross_entropy",
        .explanation = "Logistic loss of one score per sample, class 1 against class 0.",
        .mean =
            [](const at::Tensor& output, const at::Tensor& target, const setting_values&) {
              return at::binary_cross_entropy_with_logits(output, target.to(output.scalar_type()));
            },
        .takes = loss_input::binary_score,
        .called = "binary cross-entropy"},
       {.name = "hinge",
        .explanation = "Hinge loss of one score per sample, class 1 against class 0.",
        .mean =
            [](const at::Tensor& output, const at::Tensor& target, const setting_values&) {
              return at::relu(1.0 - (target.to(output.scalar_type()) * 2.0 - 1.0) * output).mean();
            },
        .takes = loss_input::binary_score,
        .called = "hinge loss"},
       {.name = "mse",
        .explanation = "Squared error of one number per sample.",
        .mean = [](const at::Tensor& output, const at::Tensor& target,
                   const setting_values&) { return at::mse_loss(output, target.to(output.scalar_type())); },
        .takes = loss_input::number,
        .called = "squared error"}}};
  return all;
}

}  // namespace

const loss_function loss_function::cross_entropy{"cross_entropy"};
const loss_function loss_function::nll{"nll"};
const loss_function loss_function::binary_cross_entropy{"binary_cross_entropy"};
const loss_function loss_function::hinge{"hinge"};
const loss_function loss_function::mse{"mse"};

loss_function::loss_function() : loss_function{"cross_entropy"} {}

loss_function::loss_function(const std::string& name, setting_values settings) : kind_{find_loss(name)} {
  if (kind_ == nullptr) throw std::invalid_argument("unknown loss \"" + name + "\"");
  std::erase_if(settings, [&](const auto& given) {
    return std::none_of(kind_->settings.begin(), kind_->settings.end(),
                        [&](const setting& row) { return row.name == given.first; });
  });
  for (const auto& row : kind_->settings)
    if (!row.default_text.empty() && !settings.contains(row.name))
      throw std::invalid_argument("the loss \"" + name + "\" requires a value for " + row.name);
  settings_ = std::make_shared<const setting_values>(std::move(settings));
}

const std::deque<loss_kind>& loss_kinds() {
  return losses().all();
}

const loss_kind* find_loss(const std::string& name) {
  return losses().find(name);
}

void register_loss(loss_kind kind) {
  if (kind.name == "auto") throw std::invalid_argument("no loss can be called \"auto\"");
  if (!kind.mean) throw std::invalid_argument("the loss \"" + kind.name + "\" has no function `mean`");
  losses().add(std::move(kind));
}

at::Tensor mean_loss(const loss_function& loss, const at::Tensor& output, const at::Tensor& target) {
  const auto characters = loss.takes(loss_input::class_scores) && target.dim() > 1 && output.dim() == target.dim() + 1;
  if (characters) return loss.kind().mean(output.flatten(0, -2), target.flatten(), loss.settings());
  return loss.kind().mean(output, target, loss.settings());
}

std::optional<std::int64_t> count_correct(const loss_function& loss, const at::Tensor& output, const at::Tensor& target,
                                          std::int64_t k) {
  if (!loss.has_classes()) return std::nullopt;
  if (loss.takes(loss_input::class_scores) && k > 1) {
    const auto most = std::min(k, output.size(-1));
    return std::get<1>(output.topk(most, -1)).eq(target.unsqueeze(-1)).sum().item<std::int64_t>();
  }
  return correct_targets(loss, output, target)->item<std::int64_t>();
}

namespace {

// Returns the number of correct samples as argmax and eq do, without their four passes through the dispatcher, which
// take longer than the forward pass of a small model. `scores` [rows, classes], contiguous.
std::int64_t count_highest(const float* scores, const std::int64_t* target, std::int64_t rows, std::int64_t classes) {
  std::int64_t correct = 0;
  for (std::int64_t row = 0; row < rows; ++row, scores += classes) {
    std::int64_t best = 0;
    for (std::int64_t k = 1; k < classes; ++k)
      if (scores[k] > scores[best] || (std::isnan(scores[k]) && !std::isnan(scores[best]))) best = k;
    correct += best == target[row];
  }
  return correct;
}

}  // namespace

std::optional<at::Tensor> correct_targets(const loss_function& loss, const at::Tensor& output,
                                          const at::Tensor& target) {
  if (!loss.has_classes()) return std::nullopt;
  if (loss.takes(loss_input::binary_score)) return output.gt(0).to(at::kLong).eq(target).sum();
  const auto is_plain = output.is_cpu() && output.scalar_type() == at::kFloat && output.is_contiguous() &&
                        target.is_cpu() && target.scalar_type() == at::kLong && target.is_contiguous();
  if (!is_plain) return output.argmax(-1).eq(target).sum();
  const auto classes = output.size(-1);
  return at::scalar_tensor(count_highest(output.const_data_ptr<float>(), target.const_data_ptr<std::int64_t>(),
                                         output.numel() / classes, classes),
                           at::kLong);
}

}  // namespace troupe::models
