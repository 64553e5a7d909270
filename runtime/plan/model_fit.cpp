#include "troupe/algorithms/support/autocast.hpp"
#include "troupe/algorithms/training/optimizer.hpp"
#include "troupe/files/text.hpp"
#include "troupe/models/networks/gradient_hooks.hpp"
#include "troupe/models/networks/model_file.hpp"
#include "troupe/models/networks/out_of_memory.hpp"
#include "troupe/runtime/plan/derive.hpp"
#include "troupe/runtime/plan/recipe.hpp"
#include "troupe/runtime/plan/refuse.hpp"
#include "troupe/runtime/support/activity.hpp"
#include "troupe/runtime/support/units.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace troupe {

namespace {

/// Returns the shape that forward() must return for `count` samples under the loss.
std::vector<std::int64_t> output_sizes(const planned_data& so_far, const models::loss_function& loss,
                                       std::int64_t count) {
  auto sizes = models::made_up_targets(so_far.facts.sequences, so_far.shape, count).sizes().vec();
  if (loss.takes(models::loss_input::class_scores)) sizes.push_back(so_far.shape.classes);
  return sizes;
}

/// Returns the key that selects the model.
std::string key_of_model(const topology::topology& file) {
  return file.model.file().empty() ? "model.name" : "model." + file.model.name;
}

/// Returns text such as "model.name = "gpt" does not fit data.name = "digits": ".
std::string does_not_fit(const topology::topology& file) {
  const auto& path = file.model.file();
  return key_of_model(file) + " = \"" + (path.empty() ? file.model.name : path.filename().string()) +
         "\" does not fit data.name = \"" + file.data.name + "\": ";
}

/// Names what is done with a network before the run. The code of a module of the user's may never return.
activity activity_of(const topology::topology& file, const models::network& net, const std::string& what) {
  const auto& path = file.model.file();
  return activity{(path.empty() ? "model.name = \"" + file.model.name + "\"" : path.string()) + ": " + what,
                  file.run.timeout, "run.timeout",
                  net.takes_any_loss() ? activity::when_late::end_process : activity::when_late::say_so};
}

/// Returns the models that take the samples, and the samples that the model takes, as the end of a message: "; use …".
/// Returns an empty text for a model whose file decides what it takes.
std::string other_choices(const planned_data& so_far) {
  if (so_far.model->fits == nullptr) return {};
  constexpr std::size_t most = 3;
  std::vector<std::string> names;
  for (const auto& kind : models::network_kinds())
    if (kind.fits != nullptr && kind.fits(so_far.facts.kind, so_far.shape)) names.push_back(kind.name);
  const bool some = names.size() > most;
  if (some) names.resize(most);
  return "; use " + std::string(some ? "for instance " : "") +
         (names.empty() ? "" : "model.name = " + text::listed(text::in_quotes(names)) + ", or ") + "a data set of " +
         so_far.model->takes;
}

}  // namespace

std::string sizes_text(at::IntArrayRef sizes) {
  std::string text;
  for (const auto size : sizes) text += (text.empty() ? "" : "×") + std::to_string(size);
  return text;
}

models::network_shape shape_of(const topology::model_settings& model, const std::vector<std::int64_t>& input,
                               std::int64_t classes) {
  models::network_shape shape{.input = input,
                              .classes = classes,
                              .layers = model.layers,
                              .width = model.width,
                              .heads = model.heads,
                              .dropout = model.dropout,
                              .file = model.file(),
                              .padded_shortcuts = model.shortcut == "pad",
                              .settings = model.options};
  shape.rank = model.rank.value_or(shape.rank);
  if (model.initializer == "normal")
    shape.normal =
        models::normal_initializer{.deviation = model.initializer_std, .zero_biases = model.initializer_bias == "zero"};
  return shape;
}

namespace {

/// Refuses a loss that does not fit the targets of the data set; `classes` is 0 if they are numbers.
void check_targets(const topology::topology& file, const models::loss_function& loss, std::int64_t classes) {
  if (loss.has_classes() && classes == 0)
    refuse(file, "model.loss",
           "the loss " + loss.name() + " requires classes, but the targets of " + file.data.name +
               " are numbers; set model.loss = \"mse\"" +
               (file.data.name == "tensors" ? ", or save the targets as int64 classes" : ""));
  if (loss.takes(models::loss_input::binary_score) && classes != 2)
    refuse(file, "model.loss",
           "the loss " + loss.name() + " requires 2 classes, but " + file.data.name + " has " +
               std::to_string(classes) + "; use \"cross_entropy\"");
}

}  // namespace

models::loss_function loss_of(const topology::topology& file, const models::network& net, std::int64_t classes) {
  const auto& name = file.model.loss;
  const auto own = net.loss();
  if (net.takes_any_loss()) {
    const auto chosen = name == "auto" ? own : models::loss_function{name, file.model.options};
    check_targets(file, chosen, classes);
    return chosen;
  }
  if (name == "auto" || name == own.name()) return own;
  const models::loss_function chosen{name, file.model.options};
  const auto fits = chosen.takes(own.kind().takes) || chosen.takes(models::loss_input::any);
  const auto steps_without_loss = models::find_network(file.model.name)->step != nullptr;
  if (fits && !steps_without_loss && name != "nll") return chosen;
  if (name == "nll" && fits)
    refuse(file, "model.loss",
           "model.loss = \"nll\" requires log-probabilities, but " + file.model.name +
               " returns scores; use \"cross_entropy\"");
  const auto use = "; use \"" + own.name() + "\"";
  const auto problem = "model.loss = \"" + name + "\" does not fit the ";
  if (own.takes(models::loss_input::number) && classes == 0)
    refuse(file, "model.loss",
           problem + "numeric targets of " + file.data.name + use +
               (file.data.name == "tensors" ? ", or save the targets as int64 classes" : ""));
  refuse(file, "model.loss", problem + "output of " + file.model.name + use);
}

void check_accuracy(const topology::topology& file, const models::loss_function& loss) {
  if (loss.has_classes()) return;
  const auto why = " requires an accuracy, but " + file.model.name +
                   (loss.takes(models::loss_input::number) ? " is trained as a regression and has none; "
                                                           : " is trained with " + loss.name() + ", which has none; ");
  if (file.evaluate.target_accuracy)
    refuse(file, "evaluate.target_accuracy",
           "evaluate.target_accuracy" + why + "remove the key, or use evaluate.patience, which then follows the loss");
  if (file.evaluate.each_worker)
    refuse(file, "evaluate.each_worker", "evaluate.each_worker = true" + why + "remove the key");
}

data::normalisation scale_of(const topology::topology& file, const data::dataset_kind& kind,
                             const models::network_shape& shape, bool images) {
  const auto& mean = file.data.mean;
  const auto& std = file.data.std;
  topology::check_normalisation(file, images ? shape.input.front() : 0, refusal_in(file));
  if (!file.data.normalize) return {};
  if (!mean.empty() && !images)
    refuse(file, "data.mean",
           "data.mean and data.std apply only to images, and the samples of " + kind.name +
               " are not normalised; remove both keys");
  if (!mean.empty()) return {mean, std};
  auto of_preset = scale_of_preset(file, images ? shape.input.front() : 0);
  return of_preset.mean.empty() ? kind.published : of_preset;
}

void check_top_k(const planned_model& so_far) {
  const auto& k = so_far.file.evaluate.top_k;
  const auto scores = so_far.loss.takes(models::loss_input::class_scores);
  if (!k || (scores && *k < so_far.shape.classes)) return;
  refuse(so_far.file, "evaluate.top_k",
         equals("evaluate.top_k", *k) +
             (scores ? " counts every sample as correct, because there are only " +
                           std::to_string(so_far.shape.classes) + " scores; use a smaller value"
                     : " requires several scores per sample, but " + so_far.file.model.name + " returns one") +
             (scores ? ", or remove the key" : "; remove the key"));
}

void check_augmentation(const planned_data& so_far) {
  const auto& how = so_far.augment;
  if (!how.any()) return;
  const auto& file = so_far.file;
  if (!so_far.images())
    refuse(file, "augment",
           "[augment] applies only to 8-bit images, and the samples of " + so_far.data->name +
               " are not images; remove it");
  const auto channels = so_far.shape.input.front();
  const auto colours = how.brightness > 0 || how.contrast > 0 || how.saturation > 0 || how.hue > 0;
  if (colours && channels != 1 && channels != 3)
    refuse(file, "augment",
           "augment.brightness, contrast, saturation and hue require images with 1 or 3 channels, but those of " +
               so_far.data->name + " have " + std::to_string(channels) + "; remove these keys");
}

std::unique_ptr<models::network> make_network_of(const planned_data& so_far) try {
  return models::make_network(*so_far.model, so_far.shape, so_far.file.run.seed);
} catch (const models::file_error& reason) {
  throw input_error(reason.what());
} catch (const models::setting_error& reason) {
  refuse(so_far.file, "model." + reason.key, reason.what());
} catch (const std::invalid_argument& reason) {
  refuse(so_far.file, "model.name", does_not_fit(so_far.file) + reason.what() + other_choices(so_far));
} catch (const std::exception& reason) {
  if (const auto detail = models::out_of_memory(reason))
    refuse(so_far.file, "model.name",
           "model.name = \"" + so_far.file.model.name + "\" does not fit into the memory of this machine (" + *detail +
               "); use a smaller model, or close other programs");
  refuse(so_far.file, "model.name", does_not_fit(so_far.file) + models::reason_of(reason));
}

/// Tries a forward and a backward pass in bfloat16, which some operators lack on some processors.
void try_out_bfloat16(const planned_work& so_far, models::network& net, std::int64_t samples) {
  const auto& file = so_far.file;
  const auto trains_here =
      std::any_of(so_far.devices.begin(), so_far.devices.end(), [](const auto& device) { return device.is_cpu(); });
  if (file.workers.precision != "bfloat16" || !trains_here) return;
  try {
    at::Generator generator = at::detail::createCPUGenerator(1);
    const auto inputs = models::made_up_samples(so_far.facts.kind, so_far.shape, samples, generator);
    const auto output = [&] {
      const autocast_scope in_bfloat16{true, at::kCPU};
      return net.forward(inputs);
    }();
    output.to(at::kFloat).sum().backward();
    for (auto& [name, values] : net.parameters()) values.mutable_grad().reset();
  } catch (const std::exception& reason) {
    refuse(file, "workers.precision",
           "workers.precision = \"bfloat16\": " + file.model.name + " cannot be trained in bfloat16 on this machine (" +
               models::reason_of(reason) + "); use \"float32\"");
  }
}

/// Computes the loss of a model's output for `samples` samples.
void try_out_loss(const planned_work& so_far, const models::loss_function& loss, const at::Tensor& output,
                  std::int64_t samples) {
  const auto& file = so_far.file;
  const auto about = "model.loss = \"" + loss.name() + "\" does not fit data.name = \"" + file.data.name +
                     "\" and model.name = \"" + file.model.name + "\": ";
  at::Tensor mean;
  try {
    const at::AutoGradMode recorded{true};
    const auto target = models::made_up_targets(so_far.facts.sequences, so_far.shape, samples);
    mean = models::mean_loss(loss, output.detach().requires_grad_(), target);
  } catch (const std::exception& reason) {
    refuse(file, "model.loss", about + models::reason_of(reason));
  }
  if (mean.dim() != 0 || !mean.is_floating_point())
    refuse(file, "model.loss",
           about + "it returns " + (mean.is_floating_point() ? "" : "integers, ") + "[" + sizes_text(mean.sizes()) +
               "] instead of a scalar; return the mean over the samples");
  if (!mean.requires_grad())
    refuse(file, "model.loss",
           about + "it cannot be differentiated; compute it from the output, with operators that autograd records");
}

std::vector<std::string> try_out(const planned_work& so_far, const models::loss_function& loss, models::network& net) {
  const auto& file = so_far.file;
  const auto about = does_not_fit(file);
  constexpr std::int64_t samples = 2;  // a single sample could hide which dimension counts the samples
  at::Tensor output;
  const auto trying = activity_of(file, net, "forward() on " + std::to_string(samples) + " samples");
  try {
    const at::NoGradGuard unrecorded;
    at::Generator generator = at::detail::createCPUGenerator(1);
    net.train(false);
    output = net.forward(models::made_up_samples(so_far.facts.kind, so_far.shape, samples, generator));
  } catch (const std::exception& reason) {
    refuse(file, key_of_model(file), about + models::reason_of(reason) + other_choices(so_far));
  }
  const auto expected = output_sizes(so_far, loss, samples);
  const auto fits = loss.takes(models::loss_input::any) || output.sizes() == at::IntArrayRef{expected};
  if (fits && output.is_floating_point()) {
    try_out_loss(so_far, loss, output, samples);
    try_out_bfloat16(so_far, net, samples);
    return warnings_of_output(output, loss);
  }
  refuse(file, key_of_model(file),
         about + "for " + std::to_string(samples) + " samples of " + sizes_text(so_far.shape.input) + " it returns " +
             (output.is_floating_point() ? "" : "integers, ") + "[" + sizes_text(output.sizes()) + "], but the loss " +
             loss.name() + " requires [" + sizes_text(expected) + "]; change its last layer, or model.loss");
}

std::string note_on_missing_gradients(const planned_model& so_far, models::network& net) {
  const auto& facts = so_far.facts;
  std::vector<std::size_t> missing;
  const auto trying = activity_of(so_far.file, net, "a training step on 2 samples");
  try {
    missing = models::without_gradient(net, so_far.shape, so_far.loss, facts.kind, facts.sequences);
  } catch (const std::exception& reason) {
    refuse(so_far.file, key_of_model(so_far.file),
           does_not_fit(so_far.file) + "a training step fails: " + models::reason_of(reason) + other_choices(so_far));
  }
  if (missing.empty()) return {};
  constexpr std::size_t most_names = 3;
  const auto& parameters = so_far.layout.parameters;
  std::vector<std::string> names;
  std::int64_t elements = 0;
  for (const auto index : missing) {
    elements += parameters.at(index).count;
    if (names.size() < most_names) names.push_back(parameters.at(index).name);
  }
  if (missing.size() > most_names) names.push_back(std::to_string(missing.size() - most_names) + " others");
  return grouped(missing.size()) + " of " + counted(parameters.size(), "tensor") + " (" +
         grouped(static_cast<std::uint64_t>(elements)) + " of " +
         grouped(static_cast<std::uint64_t>(so_far.layout.parameter_count)) +
         " parameters) get no gradient in a trial step: " + text::listed(names, "and") +
         "; the optimizer skips parameters in every step in which they get none";
}

std::vector<std::string> draws_from_process(const planned_training& so_far, models::network& net) {
  const auto& file = so_far.file;
  const auto trying = activity_of(file, net, "a training step on 2 samples");
  const auto& of_process = at::detail::getDefaultCPUGenerator();
  auto state = of_process.get_state();
  std::vector<std::string> draws;
  const auto forget = [&] { state = of_process.get_state(); };
  const auto note = [&](const char* where) {
    if (!state.equal(of_process.get_state())) draws.emplace_back(where);
    forget();
  };
  try {
    const at::NoGradGuard unrecorded;
    auto own = at::detail::createCPUGenerator(1);
    const auto samples = models::made_up_samples(so_far.facts.kind, so_far.shape, 2, own);
    net.train(true);
    net.draw_from(own);
    const auto output = net.forward(samples);
    file.model.file().empty() ? note("forward()") : forget();  // modules from files report their draws
    models::mean_loss(so_far.loss, output, models::made_up_targets(so_far.facts.sequences, so_far.shape, 2));
    note("the loss");
  } catch (const std::exception& reason) {
    refuse(file, key_of_model(file),
           does_not_fit(file) + "a training step fails: " + models::reason_of(reason) + other_choices(so_far));
  }
  try {
    auto options = so_far.optimizer;
    options.undecayed.clear();
    options.tensors = {{0, 4}};
    options.parameters = 4;
    make_optimizer(options)->step(at::ones({4}), at::ones({4}), 1, 0);
    note("the optimizer");
  } catch (const std::exception& reason) {
    refuse(file, "optimizer.name",
           "optimizer.name = \"" + so_far.optimizer.name +
               "\": a step of 4 parameters fails: " + models::reason_of(reason));
  }
  return draws;
}

std::string note_on_draws(const std::vector<std::string>& operators) {
  std::string names;
  for (const auto& name : operators) names += (names.empty() ? "" : ", ") + name;
  return "the run draws random numbers (" + names +
         ") from LibTorch's global generator, which run.seed does not control; two runs differ";
}

}  // namespace troupe
