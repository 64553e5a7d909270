// Completes a matrix of which few entries are known, such as ratings, as a product of two thin matrices: the score of
// user u and item i is the dot product of their factors. Hogwild! (Niu et al. 2011), section 2, "Matrix Completion".
#include "troupe/models/networks/module.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>

#include <cmath>
#include <stdexcept>

namespace troupe::models {

namespace {

class FactorsImpl final : public torch::nn::Module {
 public:
  // Draws entries with a standard deviation of 1/√rank: at first, factors have a length of about 1, and scores a
  // variance of 1/rank.
  FactorsImpl(std::int64_t count, std::int64_t rank) {
    weight =
        register_parameter("weight", at::empty({count, rank}).normal_(0, 1 / std::sqrt(static_cast<double>(rank))));
  }

  at::Tensor of(const at::Tensor& indices) const { return at::index_select(weight, 0, indices); }

 private:
  at::Tensor weight;
};

class MatrixCompletionImpl final : public random_module {
 public:
  explicit MatrixCompletionImpl(const network_shape& shape)
      : users_{std::make_shared<FactorsImpl>(shape.input[0], shape.rank)},
        items_{std::make_shared<FactorsImpl>(shape.input[1], shape.rank)},
        first_item_{shape.input[0]} {
    register_module("users", users_);
    register_module("items", items_);
  }

  at::Tensor forward(const at::Tensor& input) override {
    const at::Tensor columns = input.col_indices();
    if (columns.numel() != 2 * input.size(0)) {
      throw std::invalid_argument("matrix_completion: " + std::to_string(input.size(0)) + " rows have " +
                                  std::to_string(columns.numel()) +
                                  " nonzeros; expected two per rating, one for the user and one for the item");
    }
    const at::Tensor pairs = columns.view({-1, 2});
    return (users_->of(pairs.select(1, 0)) * items_->of(pairs.select(1, 1) - first_item_)).sum(1);
  }

 private:
  std::shared_ptr<FactorsImpl> users_, items_;
  std::int64_t first_item_;
};

}  // namespace

std::unique_ptr<network> make_matrix_completion(const network_shape& shape) {
  require_sparse("matrix_completion", shape, "ratings of users for items", 2, 0);
  if (shape.rank < 1) {
    throw std::invalid_argument("matrix_completion requires a rank of at least 1, not " + std::to_string(shape.rank));
  }
  return as_built_in(std::make_shared<MatrixCompletionImpl>(shape), loss_function::mse);
}

}  // namespace troupe::models
