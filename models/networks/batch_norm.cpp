#include "troupe/models/networks/batch_norm.hpp"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <stdexcept>
#include <string>

namespace troupe::models {

namespace {

// What autograd keeps from forward to backward in addition to tensors.
struct exchange final : torch::CustomClassHolder {
  exchange(group_mean mean, std::size_t layer) : mean{std::move(mean)}, layer{layer} {}

  group_mean mean;
  std::size_t layer;
};

std::int64_t values_per_channel(const at::Tensor& x) {
  if (x.dim() < 2 || x.size(1) == 0) throw std::invalid_argument("batch norm requires samples with channels");
  return x.numel() / x.size(1);
}

void require_spread(std::int64_t samples) {
  if (samples > 1) return;
  throw std::invalid_argument(
      "batch norm needs more than one value per channel in training, but the batch has one sample of one pixel at "
      "this layer; increase the batch size");
}

// Returns the mean of each channel, [C].
at::Tensor channel_means(const at::Tensor& x) {
  c10::SmallVector<std::int64_t, 4> others{0};
  for (std::int64_t i = 2; i < x.dim(); ++i) others.push_back(i);
  return x.mean(others);
}

// Returns values [C] in a shape that is broadcast over `x`.
at::Tensor spread(const at::Tensor& per_channel, const at::Tensor& x) {
  c10::SmallVector<std::int64_t, 4> sizes(static_cast<std::size_t>(x.dim()), 1);
  sizes[1] = -1;
  return per_channel.view(sizes);
}

// Returns the mean and the biased variance of each channel, [2·C]. The variance is computed about the mean, because
// E[x²] − E[x]² loses precision for values far from zero. Both are corrected for the rounding error of the mean.
at::Tensor own_moments(const at::Tensor& x) {
  const at::Tensor rough = channel_means(x);
  const at::Tensor apart = x - spread(rough, x);
  const at::Tensor rest = channel_means(apart);
  return at::cat({rough + rest, (channel_means(apart.square()) - rest.square()).clamp_min_(0)});
}

// Symbols as in Ioffe and Szegedy 2015, section 3: x̂ = (x − µ) / σ, y = γ x̂ + β; m values of each channel in the
// group. Both exchanges carry means rather than sums, so that the terms of a sum are of the magnitude of a value.
class synchronised : public torch::autograd::Function<synchronised> {
 public:
  using context = torch::autograd::AutogradContext;
  using tensors = torch::autograd::variable_list;

  static at::Tensor forward(context* kept, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                            at::Tensor running_mean, at::Tensor running_var, double momentum, double epsilon,
                            const c10::intrusive_ptr<exchange>& group) {
    const std::int64_t channels = x.size(1);
    const auto [merged, samples] = group->mean(group->layer, false, own_moments(x), values_per_channel(x));
    require_spread(samples);
    const at::Tensor mean = merged.narrow(0, 0, channels).clone();
    const at::Tensor variance = merged.narrow(0, channels, channels);
    const at::Tensor inverse = (variance + epsilon).rsqrt_();
    const double unbiased = static_cast<double>(samples) / static_cast<double>(samples - 1);
    running_mean.mul_(1 - momentum).add_(mean, momentum);
    running_var.mul_(1 - momentum).add_(variance, momentum * unbiased);
    kept->save_for_backward({x, weight, mean, inverse});
    kept->saved_data["group"] = c10::IValue::make_capsule(group);
    return (x - spread(mean, x)).mul_(spread(inverse * weight, x)).add_(spread(bias, x));
  }

  // dx = γ/σ · (dy − E[dy] − x̂ · E[dy·x̂]), where E is the mean over the group. dγ and dβ are this replica's alone;
  // they are averaged with all other gradients.
  static tensors backward(context* kept, tensors from) {
    const tensors saved = kept->get_saved_variables();
    const at::Tensor &dy = from[0], &x = saved[0], &weight = saved[1], &mean = saved[2], &inverse = saved[3];
    const auto group = c10::static_intrusive_pointer_cast<exchange>(kept->saved_data["group"].toCapsule());
    const std::int64_t channels = x.size(1), samples = values_per_channel(x);
    at::Tensor normalised = (x - spread(mean, x)).mul_(spread(inverse, x));
    const at::Tensor own = at::cat({channel_means(dy), channel_means(dy * normalised)});
    const at::Tensor sums = own * static_cast<double>(samples);
    const at::Tensor means = group->mean(group->layer, true, own, samples).values;
    at::Tensor dx = (dy - spread(means.narrow(0, 0, channels), x))
                        .sub_(normalised.mul_(spread(means.narrow(0, channels, channels), x)))
                        .mul_(spread(inverse * weight, x));
    return {dx, sums.narrow(0, channels, channels), sums.narrow(0, 0, channels), {}, {}, {}, {}, {}};
  }
};

}  // namespace

struct norm_group {
  c10::intrusive_ptr<exchange> own;
};

std::shared_ptr<const norm_group> make_norm_group(group_mean mean, std::size_t layer) {
  return mean ? std::make_shared<const norm_group>(norm_group{c10::make_intrusive<exchange>(std::move(mean), layer)})
              : nullptr;
}

at::Tensor normalise_in_training(const at::Tensor& input, const norm_settings& by, const norm_group* group) {
  if (group != nullptr) {
    values_per_channel(input);  // throws if there are no channels
    const auto or_else = [&](const at::Tensor& given, double otherwise) {
      return given.defined() ? given : at::full({input.size(1)}, otherwise, input.options().dtype(at::kFloat));
    };
    // Statistics and their exchange are float32 even if autocast has chosen a type of fewer bits.
    return synchronised::apply(input.to(at::kFloat), or_else(by.weight, 1), or_else(by.bias, 0),
                               or_else(by.running_mean, 0), or_else(by.running_var, 1), by.momentum, by.epsilon,
                               group->own)
        .to(input.scalar_type());
  }
  require_spread(values_per_channel(input));
  return at::batch_norm(input, by.weight, by.bias, by.running_mean, by.running_var, /*training=*/true, by.momentum,
                        by.epsilon, at::globalContext().userEnabledCuDNN());
}

BatchNorm2dImpl::BatchNorm2dImpl(std::int64_t channels) {
  weight = register_parameter("weight", at::ones({channels}));
  bias = register_parameter("bias", at::zeros({channels}));
  running_mean = register_buffer("running_mean", at::zeros({channels}));
  running_var = register_buffer("running_var", at::ones({channels}));
  num_batches_tracked = register_buffer("num_batches_tracked", at::zeros({}, at::kLong));
}

at::Tensor BatchNorm2dImpl::forward(const at::Tensor& input) {
  const norm_settings own{weight, bias, running_mean, running_var};
  if (is_training()) {
    num_batches_tracked += 1;
    return normalise_in_training(input, own, group_.get());
  }
  return at::batch_norm(input, weight, bias, running_mean, running_var, /*training=*/false, own.momentum, own.epsilon,
                        at::globalContext().userEnabledCuDNN());
}

void BatchNorm2dImpl::synchronise(group_mean mean, std::size_t layer) {
  group_ = make_norm_group(std::move(mean), layer);
}

std::vector<std::shared_ptr<BatchNorm2dImpl>> batch_norms_of(const torch::nn::Module& module) {
  std::vector<std::shared_ptr<BatchNorm2dImpl>> norms;
  for (const auto& child : module.modules(/*include_self=*/false)) {
    if (auto norm = std::dynamic_pointer_cast<BatchNorm2dImpl>(child)) norms.push_back(std::move(norm));
  }
  return norms;
}

}  // namespace troupe::models
