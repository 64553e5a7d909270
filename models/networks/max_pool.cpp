#include "troupe/models/networks/max_pool.hpp"

#include "troupe/models/networks/max_pool_rows.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cstdint>

namespace troupe::models {

namespace {

/// Sizes of a batch of images [N, C, H, W]: N·C planes, each of H x W values, of which H/2 x W/2 windows are pooled.
struct pooled_shape {
  explicit pooled_shape(at::IntArrayRef sizes)
      : planes(sizes[0] * sizes[1]), height(sizes[2]), width(sizes[3]), rows(height / 2), columns(width / 2) {}

  /// Calls work(first, pooled) for each plane on the intra-op threads, with the indices of the plane's first value and
  /// of its first pooled value.
  template <class Work>
  void for_each_plane(Work work) const {
    constexpr std::int64_t values_per_task = 1 << 15;
    const auto grain = std::max<std::int64_t>(1, values_per_task / std::max<std::int64_t>(1, height * width));
    at::parallel_for(0, planes, grain, [&](std::int64_t begin, std::int64_t end) {
      for (auto plane = begin; plane < end; ++plane) work(plane * height * width, plane * rows * columns);
    });
  }

  std::int64_t planes, height, width, rows, columns;
};

class pooling : public torch::autograd::Function<pooling> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    const pooled_shape shape{x.sizes()};
    const auto sizes = {x.size(0), x.size(1), shape.rows, shape.columns};
    auto largest = at::empty(sizes, x.options());
    auto places = at::empty(sizes, x.options().dtype(at::kInt));
    const auto* from = x.const_data_ptr<float>();
    auto* to = largest.mutable_data_ptr<float>();
    auto* place = places.mutable_data_ptr<std::int32_t>();
    shape.for_each_plane([&](std::int64_t first, std::int64_t pooled) {
      for (std::int64_t row = 0; row < shape.rows; ++row) {
        const auto* above = from + first + 2 * row * shape.width;
        const auto at = pooled + row * shape.columns;
        pool_rows(above, above + shape.width, shape.columns, to + at, place + at);
      }
    });
    context->save_for_backward({places});
    context->saved_data["sizes"] = x.sizes().vec();
    return largest;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto places = context->get_saved_variables().front();
    const auto sizes = context->saved_data["sizes"].toIntVector();
    const pooled_shape shape{sizes};
    const auto given = gradients.front().contiguous();
    auto result = at::zeros(sizes, given.options());
    const auto* from = given.const_data_ptr<float>();
    const auto* place = places.const_data_ptr<std::int32_t>();
    auto* to = result.mutable_data_ptr<float>();
    shape.for_each_plane([&](std::int64_t first, std::int64_t pooled) {
      for (std::int64_t row = 0; row < shape.rows; ++row) {
        const auto at = pooled + row * shape.columns;
        spread_row(from + at, place + at, shape.columns, shape.width, to + first + 2 * row * shape.width);
      }
    });
    return {result};
  }
};

}  // namespace

at::Tensor max_pool_2x2(const at::Tensor& x) {
  const auto takes_short_way = x.device().is_cpu() && x.scalar_type() == at::kFloat && x.dim() == 4 &&
                               x.is_contiguous() && x.numel() > 0 && x.size(2) > 1 && x.size(3) > 1;
  return takes_short_way ? pooling::apply(x) : at::max_pool2d(x, 2);
}

}  // namespace troupe::models
