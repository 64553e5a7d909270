#include "troupe/actors/optimizer_kinds.hpp"

#include "troupe/actors/novograd.hpp"

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <functional>
#include <tuple>
#include <utility>

namespace troupe {

namespace {

/// One of LibTorch's, over a single parameter that lies in other memory each time.
class of_libtorch final : public optimizer {
 public:
  using engine = torch::optim::Optimizer;
  using engine_maker = std::function<std::unique_ptr<engine>(std::vector<at::Tensor>)>;

  of_libtorch(const optimizer_options& options, engine_maker make)
      : lr_(options.lr), schedule_(options.schedule), make_(std::move(make)) {}

  void step(const at::Tensor& weights, const at::Tensor& gradient, double lr_scale, std::uint64_t completed) override {
    if (!engine_) {
      parameter_ = weights.detach();
      engine_ = make_({parameter_});
    }
    parameter_.set_data(weights);
    parameter_.mutable_grad() = gradient;
    engine_->param_groups()[0].options().set_lr(lr_ * schedule_.at(completed) * lr_scale);
    engine_->step();
    parameter_.mutable_grad() = at::Tensor{};
    parameter_.set_data(nothing_);  // let go of the caller's memory: it is frozen from here on
  }

 private:
  double lr_;
  learning_rate schedule_;
  engine_maker make_;
  at::Tensor parameter_;  ///< Its identity is the key of the state.
  at::Tensor nothing_ = at::empty({0});
  std::unique_ptr<engine> engine_;
};

std::unique_ptr<optimizer> make_sgd(const optimizer_options& options) {
  return std::make_unique<of_libtorch>(options, [options](std::vector<at::Tensor> parameters) {
    return std::make_unique<torch::optim::SGD>(std::move(parameters), torch::optim::SGDOptions(options.lr)
                                                                          .momentum(options.momentum)
                                                                          .weight_decay(options.weight_decay)
                                                                          .nesterov(options.nesterov));
  });
}

/// Adam and AdamW differ in what they do with the weight decay.
template <class Engine, class Options>
std::unique_ptr<optimizer> make_adam(const optimizer_options& options) {
  return std::make_unique<of_libtorch>(options, [options](std::vector<at::Tensor> parameters) {
    const auto [first, second] = betas_of(options, 0.9, 0.999);
    return std::make_unique<Engine>(
        std::move(parameters),
        Options(options.lr).betas({first, second}).eps(options.eps).weight_decay(options.weight_decay));
  });
}

}  // namespace

const std::vector<optimizer_kind>& optimizer_kinds() {
  static const std::vector<optimizer_kind> kinds{
      {.name = "sgd",
       .explanation = "v = momentum·v + g + weight_decay·p; p = p - lr·v",
       .reads = {"momentum", "nesterov"},
       .make = make_sgd},
      {.name = "adam",
       .explanation = "Kingma and Ba 2015, algorithm 1; weight_decay·p is added to the gradient; betas [0.9, 0.999]",
       .reads = {"betas", "eps"},
       .make = make_adam<torch::optim::Adam, torch::optim::AdamOptions>},
      {.name = "adamw",
       .explanation = "Loshchilov and Hutter 2019, algorithm 2: as adam, but p = p - lr·weight_decay·p beside the step",
       .reads = {"betas", "eps"},
       .make = make_adam<torch::optim::AdamW, torch::optim::AdamWOptions>},
      {.name = "novograd",
       .explanation = "Ginsburg et al. 2019, algorithm 1: of each layer v = beta2·v + (1-beta2)·|g|², "
                      "m = beta1·m + (1-beta1)·(g/(√v+eps) + weight_decay·p); p = p - lr·m; betas [0.95, 0.98]",
       .reads = {"betas", "eps"},
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
