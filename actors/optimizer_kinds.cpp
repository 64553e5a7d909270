#include "troupe/actors/optimizer_kinds.hpp"

#include "troupe/actors/novograd.hpp"

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

namespace troupe {

namespace {

/// A contiguous range with or without weight decay.
struct stretch {
  range where;
  bool decays{true};
};

/// Cuts `total` elements into such ranges; `undecayed` is ascending. Returns a single one if nothing is excluded.
std::vector<stretch> stretches_of(const std::vector<range>& undecayed, std::int64_t total) {
  std::vector<stretch> made;
  std::int64_t end = 0;
  for (const auto& one : undecayed) {
    if (one.first > end) made.push_back({{end, one.first - end}, true});
    made.push_back({one, false});
    end = one.first + one.count;
  }
  if (total > end) made.push_back({{end, total - end}, true});
  return made;
}

/// One of LibTorch's, over parameters that lie in other memory each time: a single one, unless weight decay does not
/// apply to all. Then there are two groups, as PyTorch's param_groups.
template <class Engine, class Options>
class of_libtorch final : public optimizer {
 public:
  /// `settings(options, weight_decay)` are those of a group.
  using settings_maker = Options (*)(const optimizer_options& options, double weight_decay);

  of_libtorch(const optimizer_options& options, settings_maker settings) : options_(options), settings_(settings) {}

  void step(const at::Tensor& weights, const at::Tensor& gradient, double lr_scale, std::uint64_t completed) override {
    if (!engine_) begin(weights);
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      parameters_[i].set_data(part_of(weights, i));
      parameters_[i].mutable_grad() = part_of(gradient, i);
    }
    const auto lr = options_.lr * options_.schedule.at(completed) * lr_scale;
    for (auto& group : engine_->param_groups()) group.options().set_lr(lr);
    engine_->step();
    for (auto& parameter : parameters_) {
      parameter.mutable_grad() = at::Tensor{};
      parameter.set_data(nothing_);  // let go of the caller's memory: it is frozen from here on
    }
  }

 private:
  void begin(const at::Tensor& weights) {
    stretches_ = stretches_of(options_.undecayed, weights.numel());
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
    engine_ = std::make_unique<Engine>(std::move(groups), settings);
  }

  at::Tensor part_of(const at::Tensor& flat, std::size_t index) const {
    if (stretches_.size() == 1) return flat;
    const auto& where = stretches_[index].where;
    return flat.narrow(0, where.first, where.count);
  }

  optimizer_options options_;
  settings_maker settings_;
  std::vector<stretch> stretches_;
  std::vector<at::Tensor> parameters_;  ///< By stretch; their identities are the keys of the state.
  at::Tensor nothing_ = at::empty({0});
  std::unique_ptr<Engine> engine_;
};

torch::optim::SGDOptions sgd_settings(const optimizer_options& options, double weight_decay) {
  return torch::optim::SGDOptions(options.lr)
      .momentum(options.momentum)
      .weight_decay(weight_decay)
      .nesterov(options.nesterov);
}

std::unique_ptr<optimizer> make_sgd(const optimizer_options& options) {
  return std::make_unique<of_libtorch<torch::optim::SGD, torch::optim::SGDOptions>>(options, sgd_settings);
}

/// Adam and AdamW differ in what they do with the weight decay.
template <class Options>
Options adam_settings(const optimizer_options& options, double weight_decay) {
  const auto [first, second] = betas_of(options, 0.9, 0.999);
  return Options(options.lr).betas({first, second}).eps(options.eps).weight_decay(weight_decay);
}

template <class Engine, class Options>
std::unique_ptr<optimizer> make_adam(const optimizer_options& options) {
  return std::make_unique<of_libtorch<Engine, Options>>(options, adam_settings<Options>);
}

}  // namespace

const std::vector<optimizer_kind>& optimizer_kinds() {
  static const std::vector<optimizer_kind> kinds{
      {.name = "sgd",
       .explanation = "SGD: v = momentum·v + g + weight_decay·p; p = p - lr·v.",
       .reads = {"momentum", "nesterov"},
       .make = make_sgd},
      {.name = "adam",
       .explanation = "Adam (Kingma and Ba 2015, algorithm 1), with weight_decay·p added to the gradient and betas of "
                      "[0.9, 0.999] by default.",
       .reads = {"betas", "eps"},
       .make = make_adam<torch::optim::Adam, torch::optim::AdamOptions>},
      {.name = "adamw",
       .explanation = "AdamW (Loshchilov and Hutter 2019, algorithm 2): like adam, but p = p - lr·weight_decay·p is a "
                      "separate update.",
       .reads = {"betas", "eps"},
       .make = make_adam<torch::optim::AdamW, torch::optim::AdamWOptions>},
      {.name = "novograd",
       .explanation = "NovoGrad (Ginsburg et al. 2019) as in the package torch_optimizer. For each tensor, v = beta2·v "
                      "+ (1-beta2)·|g|², starting from v = |g|²; m = beta1·m + g/(√v+eps) + weight_decay·p; p = p - "
                      "lr·m. The default betas are [0.95, 0.0].",
       .reads = {"betas", "eps", "grad_averaging", "moment_start"},
       .by_layer = true,
       .make = make_novograd},
  };
  return kinds;
}

const optimizer_kind* find_optimizer(const std::string& name) {
  const auto& all = optimizer_kinds();
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& kind) { return kind.name == name; });
  return found == all.end() ? nullptr : &*found;
}

bool goes_by(const optimizer_kind& kind, const std::string& key) {
  const auto has = [&](const auto& one) {
    return std::find(one.reads.begin(), one.reads.end(), key) != one.reads.end();
  };
  return has(kind) || std::none_of(optimizer_kinds().begin(), optimizer_kinds().end(), has);
}

std::pair<double, double> betas_of(const optimizer_options& options, double first, double second) {
  return options.betas.empty() ? std::pair{first, second} : std::pair{options.betas.at(0), options.betas.at(1)};
}

}  // namespace troupe
