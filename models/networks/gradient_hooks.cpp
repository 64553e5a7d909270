#include "troupe/models/networks/gradient_hooks.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <memory>
#include <unordered_set>

namespace troupe::models {

namespace {

using listener = std::function<void(std::size_t)>;

class post_accumulate final : public torch::autograd::PostAccumulateGradHook {
 public:
  post_accumulate(std::size_t index, std::shared_ptr<const listener> ready) : index_{index}, ready_{std::move(ready)} {}
  void operator()(const at::Tensor&) override { (*ready_)(index_); }

 private:
  std::size_t index_;
  std::shared_ptr<const listener> ready_;
};

// Returns each learnable parameter once, in the order of layout_of().
std::vector<at::Tensor> learnable(const network& net) {
  std::vector<at::Tensor> tensors;
  std::unordered_set<const c10::TensorImpl*> seen;
  for (const auto& [name, tensor] : net.parameters()) {
    if (tensor.requires_grad() && seen.insert(tensor.unsafeGetTensorImpl()).second) tensors.push_back(tensor);
  }
  return tensors;
}

// Returns the indices of the parameters in the order in which a backward pass over two random samples completes their
// gradients.
std::vector<std::size_t> met_by_a_pass(network& net, const network_shape& shape, const loss_function& loss,
                                       sample_kind fed, bool sequences) {
  constexpr std::int64_t samples = 2;  // With one, batch norm would have no variance where images shrink to a point.
  constexpr std::uint64_t seed = 1;
  const at::AutoGradMode on{true};
  const auto order = std::make_shared<std::vector<std::size_t>>();
  watch_gradients(net, [order](std::size_t index) { order->push_back(index); });
  at::Generator generator = at::detail::createCPUGenerator(seed);
  net.train(true);
  net.draw_from(generator);
  const at::Tensor output = net.forward(made_up_samples(fed, shape, samples, generator));
  mean_loss(loss, output, made_up_targets(sequences, shape, samples)).backward();
  return *order;
}

// Returns the indices that are not among `met`, in the reverse order of registration.
std::vector<std::size_t> others_than(const std::vector<std::size_t>& met, std::size_t parameters) {
  const std::unordered_set<std::size_t> completed{met.begin(), met.end()};
  std::vector<std::size_t> others;
  for (std::size_t index = parameters; index-- > 0;)
    if (!completed.contains(index)) others.push_back(index);
  return others;
}

}  // namespace

void watch_gradients(network& net, listener ready) {
  const auto shared = std::make_shared<const listener>(std::move(ready));
  // The hook belongs to the tensor, not to its storage or to the graph's node: it stays when either is replaced.
  std::size_t index = 0;
  for (const at::Tensor& tensor : learnable(net)) {
    torch::autograd::impl::set_post_acc_grad_hooks(tensor, std::make_unique<post_accumulate>(index++, shared));
  }
}

std::vector<std::size_t> gradient_order(network& net, const network_shape& shape, const loss_function& loss,
                                        sample_kind fed, bool sequences) {
  auto order = met_by_a_pass(net, shape, loss, fed, sequences);
  const auto others = others_than(order, learnable(net).size());
  order.insert(order.end(), others.begin(), others.end());
  return order;
}

std::vector<std::size_t> without_gradient(network& net, const network_shape& shape, const loss_function& loss,
                                          sample_kind fed, bool sequences) {
  auto others = others_than(met_by_a_pass(net, shape, loss, fed, sequences), learnable(net).size());
  std::reverse(others.begin(), others.end());
  return others;
}

}  // namespace troupe::models
