#include "troupe/runtime/plan/recipe.hpp"

#include "troupe/algorithms/training/optimizer_kinds.hpp"
#include "troupe/files/text.hpp"
#include "troupe/runtime/plan/derive.hpp"
#include "troupe/runtime/plan/refuse.hpp"
#include "troupe/runtime/plan/undecayed.hpp"
#include "troupe/runtime/support/units.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace troupe {

namespace {

std::uint64_t steps_in(double epochs, std::uint64_t steps_per_epoch) {
  return static_cast<std::uint64_t>(std::llround(epochs * static_cast<double>(steps_per_epoch)));
}

learning_rate schedule_of(const planned_work& so_far, double lr) {
  const auto& file = so_far.file;
  const auto& given = file.optimizer;
  learning_rate rate{.warmup_steps = steps_in(given.warmup_epochs, so_far.steps_per_epoch),
                     .warmup_start = given.warmup_start,
                     .decay_factor = given.decay_factor,
                     .power = given.decay_power,
                     .hold = given.schedule_by == "epoch" ? so_far.steps_per_epoch : 1,
                     .steps = so_far.steps};
  if (given.schedule == "cosine") rate.how = learning_rate::decay::cosine;
  if (given.schedule == "polynomial") rate.how = learning_rate::decay::polynomial;
  if (given.min_lr > lr)
    refuse(file, "optimizer.min_lr",
           "optimizer.min_lr = " + human_number(given.min_lr) + " exceeds the learning rate " + human_number(lr) +
               "; expected at most that value");
  if (given.min_lr > 0) rate.minimum = given.min_lr / lr;
  if (given.schedule == "step") {
    if (given.decay_epochs.empty())
      refuse(file, "optimizer.schedule",
             "optimizer.schedule = \"step\" requires optimizer.decay_epochs; expected for example [80, 120]");
    if (!std::is_sorted(given.decay_epochs.begin(), given.decay_epochs.end()))
      refuse(file, "optimizer.decay_epochs",
             "optimizer.decay_epochs must be in ascending order; expected for example [80, 120]");
    rate.how = learning_rate::decay::step;
    for (const auto epochs : given.decay_epochs) rate.decay_at.push_back(steps_in(epochs, so_far.steps_per_epoch));
  }
  return rate;
}

/// Returns whether every step averages the gradients of all workers.
bool averages_all_gradients(const planned_exchanges& so_far) {
  const auto& exchanges = so_far.exchanges;
  const auto of_all = [&](const planned_exchange& exchange) {
    return exchange.carries.sends == slot::gradient && exchange.nature.same_for_all && exchange.due.is_always() &&
           exchange.ranks().size() == so_far.workers;
  };
  return so_far.deterministic() && std::any_of(exchanges.begin(), exchanges.end(), of_all);
}

/// Returns the batch size for which optimizer.lr was chosen.
std::int64_t base_batch(const planned_work& so_far) {
  return so_far.file.optimizer.base_batch_size.value_or(so_far.sampling.batch_size);
}

double scaled_lr(const planned_exchanges& so_far) {
  const auto& given = so_far.file.optimizer;
  if (given.scale_lr == "none") return given.lr;
  const auto batch = effective_batch(so_far);
  if (batch == 0)
    refuse(so_far.file, "optimizer.scale_lr",
           "optimizer.scale_lr = \"" + given.scale_lr +
               "\" scales the learning rate with the batch over which a step averages (Goyal et al. 2017, "
               "section 2.1), but with this wiring no step averages the gradients of all workers; expected a "
               "synchronous exchange of gradients among all workers in every step, or "
               "optimizer.scale_lr = \"none\" with the final learning rate as optimizer.lr");
  const auto factor = static_cast<double>(batch) / static_cast<double>(base_batch(so_far));
  return given.lr * (given.scale_lr == "linear" ? factor : std::sqrt(factor));
}

std::string schedule_text(const topology::optimizer_settings& given) {
  std::string text;
  if (given.warmup_epochs != 0)
    text += ", warm-up over " + human_number(given.warmup_epochs) +
            (given.warmup_epochs == 1 ? " epoch from " : " epochs from ") + human_number(given.warmup_start) + " × lr";
  const auto end = " to " + human_number(given.min_lr);
  if (given.schedule == "cosine") text += ", then cosine decay" + end;
  if (given.schedule == "polynomial")
    text += ", then polynomial decay of power " + human_number(given.decay_power) + end;
  if (given.schedule == "step") {
    std::vector<std::string> when;
    for (const auto epochs : given.decay_epochs) when.push_back(human_number(epochs));
    text += ", × " + human_number(given.decay_factor) + " after epochs " + text::listed(when, "and");
  }
  if (given.schedule_by == "epoch" && !text.empty()) text += ", updated after each epoch";
  return text;
}

/// Returns text such as "3 of 8 tensors".
std::string decayed_text(const planned_training& plan) {
  const auto& parameters = plan.layout.parameters;
  const auto& undecayed = plan.optimizer.undecayed;
  const auto decays = [&](const models::flat_entry& entry) {
    return std::none_of(undecayed.begin(), undecayed.end(), [&](const range& where) {
      return entry.first >= where.first && entry.first < where.first + where.count;
    });
  };
  return std::to_string(std::count_if(parameters.begin(), parameters.end(), decays)) + " of " +
         std::to_string(parameters.size()) + " tensors";
}

/// Returns text such as "0.01 for a batch of 32, scaled linearly to 128".
std::string scaling_text(const planned_training& plan) {
  const auto& given = plan.file.optimizer;
  return human_number(given.lr) + " for a batch of " + std::to_string(base_batch(plan)) + ", scaled " +
         (given.scale_lr == "linear" ? "linearly" : "by the square root") + " to " +
         std::to_string(effective_batch(plan));
}

}  // namespace

std::vector<range> tensors_of(const models::flat_layout& layout) {
  std::vector<range> tensors;
  for (const auto& entry : layout.parameters) tensors.push_back({entry.first, entry.count});
  return tensors;
}

optimizer_options optimizer_of(const planned_exchanges& so_far) {
  const auto& file = so_far.file;
  const auto& given = file.optimizer;
  optimizer_options options{.name = given.name,
                            .lr = scaled_lr(so_far),
                            .momentum = given.momentum,
                            .weight_decay = given.weight_decay,
                            .nesterov = given.nesterov,
                            .clip_norm = given.clip_norm,
                            .l2_penalty = given.l2_penalty,
                            .undecayed = undecayed_of(file, so_far.layout, so_far.tied),
                            .grad_averaging = given.grad_averaging,
                            .starts_at_gradient = given.moment_start == "gradient",
                            .betas = given.betas,
                            .settings = given.options};
  options.eps = given.eps.value_or(options.eps);
  options.schedule = schedule_of(so_far, options.lr);
  options.schedule.changes = std::make_shared<rate_changes>();
  if (find_optimizer(given.name)->by_layer) options.tensors = tensors_of(so_far.layout);
  return options;
}

std::int64_t effective_batch(const planned_exchanges& so_far) {
  if (so_far.workers == 1) return so_far.sampling.batch_size;
  return averages_all_gradients(so_far) ? data::samples_per_step(so_far.sampling) : 0;
}

std::string settings_text(const std::vector<setting>& rows, const setting_values& values) {
  std::string text;
  for (const auto& row : rows)
    if (const auto value = values.find(row.name); value != values.end())
      text += ", " + row.name + " " + topology::to_toml(value->second);
  return text;
}

std::string optimizer_text(const planned_training& plan) {
  const auto& given = plan.file.optimizer;
  auto text = given.name + ", lr " + human_number(plan.optimizer.lr);
  if (given.scale_lr != "none") text += " (" + scaling_text(plan) + ")";
  if (given.momentum != 0) text += ", momentum " + human_number(given.momentum);
  if (given.l2_penalty != 0) text += ", L2 penalty " + human_number(given.l2_penalty) + " added to the gradient";
  if (given.weight_decay != 0) text += ", weight decay " + human_number(given.weight_decay);
  if (given.weight_decay != 0 && !plan.optimizer.undecayed.empty()) text += " on " + decayed_text(plan);
  if (given.nesterov) text += ", Nesterov";
  if (given.betas.size() == 2)
    text += ", betas " + human_number(given.betas[0]) + " and " + human_number(given.betas[1]);
  text += settings_text(find_optimizer(given.name)->settings, given.options);
  if (given.clip_norm) text += ", gradient norm clipped to " + human_number(*given.clip_norm);
  return text + schedule_text(given);
}

data::augmentation augmentation_of(const topology::topology& file) {
  const auto& given = file.augment;
  data::augmentation result;
  if (given.preset == "crop_flip") result = {.crop_padding = 4, .flip = 0.5};
  if (given.preset == "affine_jitter")
    result = {.flip = 0.5,
              .rotation = 10,
              .shear = 10,
              .scale = {0.8, 1.2},
              .brightness = 0.2,
              .contrast = 0.2,
              .saturation = 0.2};
  result.crop_padding = given.crop_padding.value_or(result.crop_padding);
  result.flip = given.flip.value_or(result.flip);
  result.rotation = given.rotation.value_or(result.rotation);
  result.shear = given.shear.value_or(result.shear);
  if (!given.scale.empty()) result.scale = given.scale;
  result.brightness = given.brightness.value_or(result.brightness);
  result.contrast = given.contrast.value_or(result.contrast);
  result.saturation = given.saturation.value_or(result.saturation);
  result.hue = given.hue.value_or(result.hue);
  if (!result.scale.empty() && (result.scale.size() != 2 || result.scale[0] > result.scale[1]))
    refuse(file, "augment.scale", "augment.scale must be a minimum and a maximum; expected for example [0.8, 1.2]");
  return result;
}

data::normalisation scale_of_preset(const topology::topology& file, std::int64_t channels) {
  if (file.augment.preset != "affine_jitter") return {};
  const std::vector<double> half(static_cast<std::size_t>(channels), 0.5);
  return {half, half};
}

}  // namespace troupe
