#include "troupe/actors/optimizer.hpp"

#include <torch/optim/sgd.h>

#include <stdexcept>

namespace troupe {

namespace {

class sgd final : public optimizer {
 public:
  explicit sgd(const optimizer_options& options) : options_(options) {}

  void step(const at::Tensor& weights, const at::Tensor& gradient, double lr_scale, std::uint64_t completed) override {
    if (!engine_) {
      parameter_ = weights.detach();
      engine_ = std::make_unique<torch::optim::SGD>(std::vector<at::Tensor>{parameter_},
                                                    torch::optim::SGDOptions(options_.lr)
                                                        .momentum(options_.momentum)
                                                        .weight_decay(options_.weight_decay)
                                                        .nesterov(options_.nesterov));
    }
    parameter_.set_data(weights);
    parameter_.mutable_grad() = clipped(gradient);
    engine_->param_groups()[0].options().set_lr(options_.lr * options_.schedule.at(completed) * lr_scale);
    engine_->step();
    parameter_.mutable_grad() = at::Tensor{};
    parameter_.set_data(nothing_);  // let go of the caller's memory: it is frozen from here on
  }

 private:
  at::Tensor clipped(const at::Tensor& gradient) const {
    if (!options_.clip_norm) return gradient;
    const auto scale = *options_.clip_norm / (gradient.norm().item<double>() + 1e-6);
    return scale < 1 ? gradient * scale : gradient;
  }

  optimizer_options options_;
  at::Tensor parameter_;  ///< Its identity is the key of the state.
  at::Tensor nothing_ = at::empty({0});
  std::unique_ptr<torch::optim::SGD> engine_;
};

}  // namespace

std::unique_ptr<optimizer> make_optimizer(const optimizer_options& options) {
  if (options.name == "sgd") return std::make_unique<sgd>(options);
  throw std::invalid_argument("no optimizer is called '" + options.name + "'");
}

}  // namespace troupe
