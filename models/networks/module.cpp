#include "troupe/models/networks/module.hpp"

#include "troupe/models/networks/batch_norm.hpp"
#include "troupe/models/networks/random_operators.hpp"

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <unordered_set>
#include <utility>

namespace troupe::models {

namespace {

/// See random_module::draw_weights().
void draw_weights(const torch::nn::Module& module, const normal_initializer& how) {
  const at::NoGradGuard unrecorded;
  const auto draw = [&](at::Tensor& weight, at::Tensor& bias) {
    weight.normal_(0, how.deviation);
    if (how.zero_biases && bias.defined()) bias.zero_();
  };
  for (const auto& child : module.modules(/*include_self=*/false)) {
    if (const auto conv = std::dynamic_pointer_cast<torch::nn::Conv2dImpl>(child)) draw(conv->weight, conv->bias);
    if (const auto linear = std::dynamic_pointer_cast<torch::nn::LinearImpl>(child)) draw(linear->weight, linear->bias);
  }
}

using forward_function = std::function<at::Tensor(const at::Tensor&)>;

class module_network final : public network {
 public:
  module_network(std::shared_ptr<torch::nn::Module> module, forward_function forward, const loss_function& loss,
                 bool is_own)
      : module_{std::move(module)},
        random_{dynamic_cast<random_module*>(module_.get())},
        forward_{std::move(forward)},
        norms_{batch_norms_of(*module_)},
        loss_{loss},
        is_own_{is_own} {
    for (const auto& item : module_->named_parameters())
      (item.value().requires_grad() ? parameters_ : frozen_).emplace_back(item.key(), item.value());
    for (const auto& item : module_->named_buffers()) {
      const at::Tensor& buffer = item.value();
      if (buffer.scalar_type() != at::kLong || buffer.dim() != 0) continue;
      buffer.set_data(buffer.to(at::kFloat));
      counters_.insert(item.key());
    }
  }

  at::Tensor forward(const at::Tensor& input) override { return forward_(input); }
  void train(bool on) override { module_->train(on); }
  void draw_from(at::Generator generator) override {
    if (random_ != nullptr) random_->draw_from(std::move(generator));
  }
  named_tensors parameters() const override { return parameters_; }
  named_tensors buffers() const override {
    auto all = frozen_;
    for (const auto& item : module_->named_buffers()) all.emplace_back(item.key(), item.value());
    return all;
  }
  bool counts(const std::string& buffer) const override { return counters_.contains(buffer); }
  loss_function loss() const override { return loss_; }
  bool takes_any_loss() const override { return is_own_; }

  std::vector<std::int64_t> norm_channels() const override {
    std::vector<std::int64_t> channels;
    for (const auto& norm : norms_) channels.push_back(norm->channels());
    return channels;
  }

  void draw_weights(const normal_initializer& how) override {
    random_ != nullptr ? random_->draw_weights(how) : models::draw_weights(*module_, how);
  }

  void synchronise(group_mean mean) override {
    for (std::size_t layer = 0; layer < norms_.size(); ++layer) norms_[layer]->synchronise(mean, layer);
  }

 private:
  std::shared_ptr<torch::nn::Module> module_;
  random_module* random_;  ///< The module, if its random operators draw from its own generator; otherwise null.
  forward_function forward_;
  named_tensors frozen_;      ///< Parameters that do not require a gradient: results contain them like buffers.
  named_tensors parameters_;  ///< Cached, because collecting the names takes longer than binding.
  std::unordered_set<std::string> counters_;
  std::vector<std::shared_ptr<BatchNorm2dImpl>> norms_;
  loss_function loss_;
  bool is_own_;  ///< Whether the module is one of a program or plug-in, whose code is unknown.
};

}  // namespace

void random_module::draw_weights(const normal_initializer& how) {
  models::draw_weights(*this, how);
}

at::Tensor random_module::dropout(const at::Tensor& input, double p) {
  return is_training() ? models::dropout(input, p, generator_) : input;
}

at::Tensor random_module::dropout2d(const at::Tensor& input, double p) {
  return is_training() ? models::dropout(input, p, generator_, drop_unit::channel) : input;
}

std::unique_ptr<network> as_built_in(std::shared_ptr<random_module> module, const loss_function& loss) {
  auto* const called = module.get();
  return std::make_unique<module_network>(
      std::move(module), [called](const at::Tensor& input) { return called->forward(input); }, loss, false);
}

std::unique_ptr<network> as_network(std::shared_ptr<torch::nn::Module> module,
                                    std::function<at::Tensor(const at::Tensor&)> forward, const loss_function& loss) {
  if (!module) throw std::invalid_argument("it has no module");
  for (const auto& item : module->named_parameters())
    if (item.value().requires_grad() && item.value().scalar_type() != at::kFloat)
      throw std::invalid_argument("its parameter " + item.key() + " is " + at::toString(item.value().scalar_type()) +
                                  "; expected Float, that is, float32");
  return std::make_unique<module_network>(std::move(module), std::move(forward), loss, true);
}

void require_images(const std::string& model, const network_shape& shape, std::int64_t least) {
  const bool image =
      shape.input.size() == 3 && shape.input[0] >= 1 && shape.input[1] >= least && shape.input[2] >= least;
  if (image && shape.classes >= 1) return;
  throw std::invalid_argument(model + " requires images of at least 1 x " + std::to_string(least) + " x " +
                              std::to_string(least) + " (channels, height, width) and at least one class, not " +
                              given(shape));
}

void require_numbers(const std::string& model, const at::Tensor& input) {
  if (input.layout() == at::kStrided && input.is_floating_point()) return;
  throw std::invalid_argument(model + " requires dense samples of numbers, but these are " +
                              (input.layout() == at::kStrided ? "characters" : "sparse"));
}

void require_characters(const std::string& model, const at::Tensor& input) {
  if (input.layout() == at::kStrided && input.scalar_type() == at::kLong && input.dim() == 2) return;
  throw std::invalid_argument(model + " requires texts, but these samples are numbers");
}

std::string given(const network_shape& shape) {
  std::string sizes;
  for (const std::int64_t size : shape.input) sizes += (sizes.empty() ? "" : " x ") + std::to_string(size);
  const auto kind = shape.input.size() == 3   ? "images of "
                    : shape.input.size() == 1 ? "samples of length "
                                              : "samples of ";
  return kind + sizes +
         (shape.classes > 0 ? " in " + std::to_string(shape.classes) + " classes" : " with numbers as targets");
}

void require_sparse(const std::string& model, const network_shape& shape, const std::string& takes,
                    std::size_t dimensions, std::int64_t classes) {
  const bool fits = shape.input.size() == dimensions && shape.classes == classes &&
                    std::all_of(shape.input.begin(), shape.input.end(), [](std::int64_t size) { return size >= 1; });
  if (!fits) throw std::invalid_argument(model + " requires sparse " + takes + ", not " + given(shape));
}

}  // namespace troupe::models
