// Losses: what training minimises, as a function of the output of a network and the targets.
#pragma once

#include "troupe/files/setting.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::models {

/// What a loss requires network::forward() to return for N samples. For text, each of T characters is a sample.
enum class loss_input : std::uint8_t {
  class_scores,  ///< [N, classes]: scores or log-probabilities. The class with the highest one is predicted.
  binary_score,  ///< [N]: one score for class 1 against class 0. Class 1 is predicted if it is above 0.
  number,        ///< [N]: one number per sample. There is no accuracy.
  any,           ///< Whatever the function of the loss takes. There is no accuracy.
};

/// A loss that a topology file can name.
struct loss_kind {
  std::string name{};         ///< Value of model.loss.
  std::string explanation{};  ///< One line of help.
  /// Returns the scalar mean over the samples of `output` against `target` [N], int64 classes or float32 numbers.
  /// `output` is float32 or, with workers.precision = "bfloat16", bfloat16; both are on the worker's device. `settings`
  /// has a value for each of the kind's settings that is set or has a default. For text and class_scores, both come as
  /// if each character were a sample: output [N·T, classes] and target [N·T]. Autograd must be able to differentiate
  /// it. Any thread, several at once.
  std::function<at::Tensor(const at::Tensor& output, const at::Tensor& target, const setting_values& settings)> mean{};
  loss_input takes{loss_input::class_scores};  ///< What it requires of the output.
  std::vector<setting> settings{};             ///< Keys of its own in the section [model].
  std::string called{};                        ///< Name in prose, such as "cross-entropy"; empty if that is `name`.
};

/// A loss with values for its settings. Cheap to copy; any thread.
class loss_function {
 public:
  static const loss_function cross_entropy;         ///< For scores of classes: softmax, then nll.
  static const loss_function nll;                   ///< For log-probabilities of classes.
  static const loss_function binary_cross_entropy;  ///< log(1 + exp(−y·score)), where y is −1 or 1.
  static const loss_function hinge;                 ///< max(0, 1 − y·score), where y is −1 or 1.
  static const loss_function mse;                   ///< Squared difference of one number per sample.

  /// Makes the cross-entropy.
  loss_function();

  /// Makes the loss of this name with those of the `settings` that it has. Throws std::invalid_argument if there is no
  /// such loss, or if a setting with a default has no value.
  explicit loss_function(const std::string& name, setting_values settings = {});

  /// Returns what the topology file calls it.
  const std::string& name() const { return kind_->name; }

  /// Returns its description.
  const loss_kind& kind() const { return *kind_; }

  /// Returns the values of its settings.
  const setting_values& settings() const { return *settings_; }

  /// Returns whether targets are classes, so that there is an accuracy.
  bool has_classes() const { return takes(loss_input::class_scores) || takes(loss_input::binary_score); }

  /// Returns whether it requires this of the output.
  bool takes(loss_input what) const { return kind_->takes == what; }

  /// Returns whether both are the same loss with the same settings.
  friend bool operator==(const loss_function& one, const loss_function& other) {
    return one.kind_ == other.kind_ && *one.settings_ == *other.settings_;
  }

 private:
  const loss_kind* kind_;
  std::shared_ptr<const setting_values> settings_;
};

/// Returns all losses, in the order in which `troupe list` shows them.
const std::deque<loss_kind>& loss_kinds();

/// Returns the loss of this name, or nullptr.
const loss_kind* find_loss(const std::string& name);

/// Adds a loss to those that topology files can name. Call it first in a program's main(), or from a plug-in. Throws
/// std::invalid_argument if the name is taken or `mean` is empty.
void register_loss(loss_kind kind);

/// Returns the scalar mean loss of `output`, as returned by network::forward(), against `target` [N], int64 or float32;
/// for text [N, T], the mean over all characters, in nats.
at::Tensor mean_loss(const loss_function& loss, const at::Tensor& output, const at::Tensor& target);

/// Returns how many of the target.numel() samples, or characters, `output` classifies correctly: the score of the true
/// class is among the `k` highest, where the first of equal scores counts as the highest. Returns nothing if targets
/// are not classes.
std::optional<std::int64_t> count_correct(const loss_function& loss, const at::Tensor& output, const at::Tensor& target,
                                          std::int64_t k = 1);

/// Returns count_correct() for k = 1 as an int64 scalar tensor on the device of `output`, without waiting for that
/// device.
std::optional<at::Tensor> correct_targets(const loss_function& loss, const at::Tensor& output,
                                          const at::Tensor& target);

}  // namespace troupe::models
