#include "troupe/models/networks/samples.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/sparse_csr_tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <numeric>
#include <vector>

namespace troupe::models {

namespace {

// Discards warnings. LibTorch warns once per process that sparse tensors are in beta, and users cannot act on that.
struct deaf final : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

at::Tensor sparse_samples(const network_shape& shape, std::int64_t count) {
  const auto dimensions = static_cast<std::int64_t>(shape.input.size());
  const at::Tensor first = at::zeros({dimensions}, at::kInt);
  std::int64_t columns = 0;
  for (std::int64_t i = 0; i < dimensions; ++i) {
    first[i] = columns;
    columns += shape.input[i];
  }
  deaf handler;
  const c10::WarningUtils::WarningHandlerGuard guard{&handler};
  return at::sparse_csr_tensor(at::arange(0, count * dimensions + 1, dimensions, at::kInt), first.repeat({count}),
                               at::ones({count * dimensions}), {count, columns}, at::kFloat);
}

}  // namespace

at::Tensor made_up_samples(sample_kind kind, const network_shape& shape, std::int64_t count,
                           const at::Generator& generator) {
  if (kind == sample_kind::sparse) return sparse_samples(shape, count);
  std::vector<std::int64_t> sizes{count};
  sizes.insert(sizes.end(), shape.input.begin(), shape.input.end());
  return kind == sample_kind::characters ? at::zeros(sizes, at::kLong) : at::rand(sizes, generator);
}

at::Tensor made_up_targets(bool sequences, const network_shape& shape, std::int64_t count) {
  std::vector<std::int64_t> sizes{count};
  if (sequences) sizes.insert(sizes.end(), shape.input.begin(), shape.input.end());
  return at::zeros(sizes, shape.classes == 0 ? at::kFloat : at::kLong);
}

}  // namespace troupe::models
