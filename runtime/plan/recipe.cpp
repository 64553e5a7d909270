#include "troupe/runtime/plan/recipe.hpp"

#include "troupe/runtime/topology/error.hpp"

#include <algorithm>
#include <cmath>

namespace troupe {

namespace {

[[noreturn]] void refuse(const topology::topology& file, const std::string& reason) {
  throw input_error(file.file.empty() ? reason : file.file.string() + ": " + reason);
}

std::uint64_t steps_in(double epochs, std::uint64_t steps_per_epoch) {
  return static_cast<std::uint64_t>(std::llround(epochs * static_cast<double>(steps_per_epoch)));
}

learning_rate schedule_of(const topology::topology& file, std::uint64_t steps_per_epoch, std::uint64_t steps) {
  const auto& given = file.optimizer;
  learning_rate made{.warmup_steps = steps_in(given.warmup_epochs, steps_per_epoch),
                     .warmup_start = given.warmup_start,
                     .decay_factor = given.decay_factor,
                     .steps = steps};
  if (given.schedule == "cosine") made.how = learning_rate::decay::cosine;
  if (given.schedule == "step") {
    if (given.decay_epochs.empty())
      refuse(
          file,
          "optimizer.schedule = \"step\" does not say when; expected for instance optimizer.decay_epochs = [80, 120]");
    if (!std::is_sorted(given.decay_epochs.begin(), given.decay_epochs.end()))
      refuse(file, "optimizer.decay_epochs do not ascend; expected for instance [80, 120]");
    made.how = learning_rate::decay::step;
    for (const auto epochs : given.decay_epochs) made.decay_at.push_back(steps_in(epochs, steps_per_epoch));
  } else if (!given.decay_epochs.empty()) {
    refuse(file, "optimizer.decay_epochs belong to optimizer.schedule = \"step\", and it is \"" + given.schedule +
                     "\"; expected that, or none of them");
  }
  return made;
}

double scaled_lr(const topology::topology& file) {
  const auto workers = static_cast<double>(file.workers.count);
  const auto& how = file.optimizer.scale_lr;
  return file.optimizer.lr * (how == "linear" ? workers : how == "sqrt" ? std::sqrt(workers) : 1);
}

}  // namespace

optimizer_options optimizer_of(const topology::topology& file, const models::flat_layout& layout,
                               std::uint64_t steps_per_epoch, std::uint64_t steps) {
  const auto& given = file.optimizer;
  optimizer_options made{.name = given.name,
                         .lr = scaled_lr(file),
                         .momentum = given.momentum,
                         .weight_decay = given.weight_decay,
                         .nesterov = given.nesterov,
                         .clip_norm = given.clip_norm,
                         .betas = given.betas};
  made.eps = given.eps.value_or(made.eps);
  made.schedule = schedule_of(file, steps_per_epoch, steps);
  for (const auto& entry : layout.parameters) made.tensors.push_back({entry.first, entry.count});
  return made;
}

data::augmentation augmentation_of(const topology::topology& file) {
  const auto& given = file.augment;
  data::augmentation made;
  if (given.preset == "crop_flip") made = {.crop_padding = 4, .flip = 0.5};
  if (given.preset == "affine_jitter")
    made = {.flip = 0.5,
            .rotation = 10,
            .shear = 10,
            .scale = {0.8, 1.2},
            .brightness = 0.2,
            .contrast = 0.2,
            .saturation = 0.2};
  made.crop_padding = given.crop_padding.value_or(made.crop_padding);
  made.flip = given.flip.value_or(made.flip);
  made.rotation = given.rotation.value_or(made.rotation);
  made.shear = given.shear.value_or(made.shear);
  if (!given.scale.empty()) made.scale = given.scale;
  made.brightness = given.brightness.value_or(made.brightness);
  made.contrast = given.contrast.value_or(made.contrast);
  made.saturation = given.saturation.value_or(made.saturation);
  made.hue = given.hue.value_or(made.hue);
  if (!made.scale.empty() && (made.scale.size() != 2 || made.scale[0] > made.scale[1]))
    refuse(file, "augment.scale wants the least and the most; expected for instance [0.8, 1.2]");
  return made;
}

data::normalisation scale_of_preset(const topology::topology& file, std::int64_t channels) {
  if (file.augment.preset != "affine_jitter") return {};
  const std::vector<double> half(static_cast<std::size_t>(channels), 0.5);
  return {half, half};
}

}  // namespace troupe
