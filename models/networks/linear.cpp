// Linear models of sparse samples, which separate two classes by the sign of one score, w·x: logistic regression, and
// the support vector machine of Hogwild! (Niu et al. 2011, section 2, equation 2). Neither has a bias: a column that is
// 1 everywhere acts as one.
#include "troupe/models/networks/module.hpp"

#include <ATen/ops/embedding_bag.h>
#include <ATen/ops/empty.h>
#include <torch/nn/init.h>

#include <cmath>

namespace troupe::models {

namespace {

class LinearImpl final : public random_module {
 public:
  explicit LinearImpl(std::int64_t columns) {
    weight = register_parameter("weight", at::empty({1, columns}));
    torch::nn::init::kaiming_uniform_(weight, std::sqrt(5.0));  // as in torch.nn.Linear
  }

  // One bag per row. Its gradient is defined, unlike that of a product with a sparse matrix.
  at::Tensor forward(const at::Tensor& input) override {
    const auto bags = at::embedding_bag(weight.view({-1, 1}), input.col_indices(), input.crow_indices(),
                                        /*scale_grad_by_freq=*/false, /*mode: sum*/ 0, /*sparse=*/false, input.values(),
                                        /*include_last_offset=*/true);
    return std::get<0>(bags).squeeze(1);
  }

 private:
  at::Tensor weight;
};

std::unique_ptr<network> make_linear(const char* model, const network_shape& shape, const loss_function& loss) {
  require_sparse(model, shape, "samples in 2 classes", 1, 2);
  return as_built_in(std::make_shared<LinearImpl>(shape.input[0]), loss);
}

}  // namespace

std::unique_ptr<network> make_logistic(const network_shape& shape) {
  return make_linear("logistic", shape, loss_function::binary_cross_entropy);
}

std::unique_ptr<network> make_svm(const network_shape& shape) {
  return make_linear("svm", shape, loss_function::hinge);
}

}  // namespace troupe::models
