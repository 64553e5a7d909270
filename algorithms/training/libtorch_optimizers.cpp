#include "troupe/algorithms/training/libtorch_optimizers.hpp"

#include "troupe/algorithms/rules/missing_gradients.hpp"
#include "troupe/algorithms/training/optimizer_kinds.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

namespace {

/// A contiguous range with or without weight decay.
struct stretch {
  range where;
  bool decays{true};
  std::size_t tensor{0};  ///< Index of the tensor to which it belongs, if each tensor is a parameter of its own.
};

/// Returns the index of the last of the ascending `ranges` that begins at or before `element`, if there is one.
std::optional<std::size_t> last_from(const std::vector<range>& ranges, std::int64_t element) {
  const auto after =
      std::upper_bound(ranges.begin(), ranges.end(), element,
                       [](std::int64_t value, const range& candidate) { return value < candidate.first; });
  if (after == ranges.begin()) return std::nullopt;
  return static_cast<std::size_t>(after - ranges.begin()) - 1;
}

/// Cuts `total` elements into stretches: where weight decay starts or stops applying and, if tensors are `apart`, where
/// a tensor begins. Returns a single stretch if there is nothing to cut.
std::vector<stretch> stretches_of(const optimizer_options& options, bool apart, std::int64_t total) {
  std::vector<std::int64_t> cuts{0, total};
  for (const auto& undecayed : options.undecayed)
    cuts.insert(cuts.end(), {undecayed.first, undecayed.first + undecayed.count});
  if (apart)
    for (const auto& tensor : options.tensors) cuts.push_back(tensor.first);
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::vector<stretch> stretches;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    const auto first = cuts[i];
    const auto excluded = last_from(options.undecayed, first);
    const auto& undecayed = options.undecayed;
    stretches.push_back({.where = {first, cuts[i + 1] - first},
                         .decays = !excluded || first >= undecayed[*excluded].first + undecayed[*excluded].count,
                         .tensor = last_from(options.tensors, first).value_or(0)});
  }
  return stretches;
}

/// Calls `each(name, tensor)` for the tensors that an engine keeps for one parameter; the names are PyTorch's.
template <class State, class Each>
void for_each_tensor(State& kept, const Each& each) {
  if constexpr (requires { kept.momentum_buffer(); }) {
    each("momentum_buffer", kept.momentum_buffer());
  } else {
    each("exp_avg", kept.exp_avg());
    each("exp_avg_sq", kept.exp_avg_sq());
  }
}

/// Whether an engine counts the steps of each parameter.
template <class State>
constexpr bool counts_steps = requires(State kept) {
  kept.step();
};

/// An engine of LibTorch over parameters that may be in other memory at each step: a single parameter, unless some are
/// excluded from weight decay. Then there are several, in two groups like PyTorch's param_groups. From the first step
/// in which a tensor has no gradient, each tensor is a parameter of its own, because it may take fewer steps than
/// others.
template <class Engine, class Options, class State>
class of_libtorch final : public optimizer {
 public:
  /// Returns the options of a group with this weight decay.
  using settings_maker = Options (*)(const optimizer_options& options, double weight_decay);

  /// `keeps_state`: whether the engine keeps anything between steps.
  of_libtorch(const optimizer_options& options, settings_maker settings, bool keeps_state)
      : options_(options), settings_(settings), keeps_state_(keeps_state) {}

  void step(const at::Tensor& weights, const at::Tensor& gradient, double lr_scale, std::uint64_t completed) override {
    const auto missing = rules::missing_in(gradient, options_.tensors);
    const auto some_missing = std::find(missing.begin(), missing.end(), true) != missing.end();
    if (some_missing && !apart_) set_apart();
    if (!engine_) begin(weights);
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (some_missing && missing[stretches_[i].tensor]) continue;  // LibTorch skips parameters without a gradient
      parameters_[i].set_data(part_of(weights, i));
      parameters_[i].mutable_grad() = part_of(gradient, i);
    }
    const auto lr = options_.schedule.rate(options_.lr, completed) * lr_scale;
    for (auto& group : engine_->param_groups()) group.options().set_lr(lr);
    engine_->step();
    for (auto& parameter : parameters_) {
      parameter.mutable_grad() = at::Tensor{};
      parameter.set_data(nothing_);  // release the caller's memory, which is frozen from here on
    }
  }

  state_dict state() const override {
    if (!engine_) return restored_;
    state_dict saved;
    if (!keeps_state_ || parameters_.empty()) return saved;
    std::map<std::string, std::vector<at::Tensor>> parts;
    std::vector<std::uint64_t> steps(apart_ ? options_.tensors.size() : 1);
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const auto kept = state_of(i);
      for_each_tensor(kept, [&](const char* name, const at::Tensor& values) { parts[name].push_back(values); });
      if constexpr (counts_steps<State>)
        steps[apart_ ? stretches_[i].tensor : 0] = static_cast<std::uint64_t>(kept.step());
    }
    if constexpr (counts_steps<State>) {
      saved.put_count("step", *std::max_element(steps.begin(), steps.end()));
      if (apart_) saved.put_counts("steps", steps);
    }
    for (const auto& [name, values] : parts) saved.put(name, at::cat(values).cpu());  // cat() copies
    return saved;
  }

  void restore(const state_dict& saved) override {
    const auto of_each_tensor = counts_steps<State> && !options_.tensors.empty() && saved.has("steps");
    auto names = keeps_state_ ? entries() : std::vector<std::string>{};
    if (of_each_tensor) names.emplace_back("steps");
    check_entries(saved, names);
    if (!saved.empty()) {
      State unused;
      for_each_tensor(unused, [&](const char* name, const at::Tensor&) { saved.tensor(name, options_.parameters); });
      if constexpr (counts_steps<State>) saved.count("step");
      if (of_each_tensor) saved.counts("steps", options_.tensors.size());
    }
    restored_ = saved;
    engine_.reset();
    apart_ = of_each_tensor;
  }

 private:
  /// Makes each tensor a parameter of its own.
  void set_apart() {
    restored_ = state();
    engine_.reset();
    apart_ = true;
  }

  /// Returns what the engine keeps for a parameter, or zeros if the parameter has not taken a step.
  State state_of(std::size_t index) const {
    const auto& states = engine_->state();
    const auto found = states.find(parameters_[index].unsafeGetTensorImpl());
    if (found != states.end()) return static_cast<const State&>(*found->second);
    State none;
    const auto zeros = at::zeros({stretches_[index].where.count}, device_);
    for_each_tensor(none, [&](const char*, at::Tensor& values) { values = zeros; });
    if constexpr (counts_steps<State>) none.step(0);
    return none;
  }

  static std::vector<std::string> entries() {
    std::vector<std::string> names;
    if constexpr (counts_steps<State>) names.emplace_back("step");
    State unused;
    for_each_tensor(unused, [&](const char* name, const at::Tensor&) { names.emplace_back(name); });
    return names;
  }

  void begin(const at::Tensor& weights) {
    stretches_ = stretches_of(options_, apart_, weights.numel());
    device_ = weights.device();
    parameters_.clear();
    std::vector<at::Tensor> decayed, undecayed;
    for (std::size_t i = 0; i < stretches_.size(); ++i) {
      parameters_.push_back(part_of(weights.detach(), i));
      (stretches_[i].decays ? decayed : undecayed).push_back(parameters_.back());
    }
    const auto settings = settings_(options_, options_.weight_decay);
    std::vector<torch::optim::OptimizerParamGroup> groups;
    if (!decayed.empty()) groups.emplace_back(std::move(decayed), std::make_unique<Options>(settings));
    if (!undecayed.empty())
      groups.emplace_back(std::move(undecayed), std::make_unique<Options>(settings_(options_, 0)));
    auto engine = std::make_unique<Engine>(std::move(groups), settings);
    if (!restored_.empty()) fill(*engine, weights);
    engine_ = std::move(engine);
    restored_ = {};
  }

  /// Gives the engine copies of the restored tensors, on the device of the weights.
  void fill(Engine& engine, const at::Tensor& weights) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      auto kept = std::make_unique<State>();
      for_each_tensor(*kept, [&](const char* name, at::Tensor& values) {
        const auto whole = restored_.tensor(name);
        check_size(whole, weights.numel());
        values = part_of(whole, i).to(weights.device(), at::kFloat, /*non_blocking=*/false, /*copy=*/true);
      });
      if constexpr (counts_steps<State>)
        kept->step(static_cast<std::int64_t>(restored_.has("steps") ? restored_.counts("steps").at(stretches_[i].tensor)
                                                                    : restored_.count("step")));
      engine.state()[parameters_[i].unsafeGetTensorImpl()] = std::move(kept);
    }
  }

  at::Tensor part_of(const at::Tensor& flat, std::size_t index) const {
    if (stretches_.size() == 1) return flat;
    const auto& where = stretches_[index].where;
    return flat.narrow(0, where.first, where.count);
  }

  optimizer_options options_;
  settings_maker settings_;
  bool keeps_state_;
  std::vector<stretch> stretches_;
  bool apart_{false};  ///< Whether each tensor is a parameter of its own, so that no stretch spans two tensors.
  c10::Device device_{c10::kCPU};
  std::vector<at::Tensor> parameters_;  ///< One for each stretch; their identities are the keys of the engine's state.
  at::Tensor nothing_ = at::empty({0});
  std::unique_ptr<Engine> engine_;  ///< Made by the first step.
  state_dict restored_;             ///< State with which the engine begins; empty once it has been made.
};

torch::optim::SGDOptions sgd_settings(const optimizer_options& options, double weight_decay) {
  return torch::optim::SGDOptions(options.lr)
      .momentum(options.momentum)
      .weight_decay(weight_decay)
      .nesterov(options.nesterov);
}

/// Returns the options of Adam or AdamW, which differ in how they apply the weight decay.
template <class Options>
Options adam_settings(const optimizer_options& options, double weight_decay) {
  const auto [first, second] = betas_of(options, 0.9, 0.999);
  return Options(options.lr).betas({first, second}).eps(options.eps).weight_decay(weight_decay);
}

}  // namespace

std::unique_ptr<optimizer> make_sgd(const optimizer_options& options) {
  using made = of_libtorch<torch::optim::SGD, torch::optim::SGDOptions, torch::optim::SGDParamState>;
  return std::make_unique<made>(options, sgd_settings, options.momentum != 0);
}

std::unique_ptr<optimizer> make_adam(const optimizer_options& options) {
  using torch::optim::AdamOptions;
  using made = of_libtorch<torch::optim::Adam, AdamOptions, torch::optim::AdamParamState>;
  return std::make_unique<made>(options, adam_settings<AdamOptions>, true);
}

std::unique_ptr<optimizer> make_adamw(const optimizer_options& options) {
  using torch::optim::AdamWOptions;
  using made = of_libtorch<torch::optim::AdamW, AdamWOptions, torch::optim::AdamWParamState>;
  return std::make_unique<made>(options, adam_settings<AdamWOptions>, true);
}

}  // namespace troupe
