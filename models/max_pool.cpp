#include "troupe/models/max_pool.hpp"

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

  /// Calls work(first row of the window's plane, first of the pooled plane) for each plane, on the intra-op threads.
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

/// Takes a value of the window if it is the largest so far. Without branches, which random values would mispredict.
inline void take_larger(float value, std::int32_t index, float& largest, std::int32_t& place) {
  const bool larger = (value > largest) | (value != value);
  largest = larger ? value : largest;
  place = larger ? index : place;
}

/// Writes the largest value of each window of two rows, and its place in the window: 0 or 1 above, 2 or 3 below. The
/// compiler makes vector instructions of this loop (see CMakeLists.txt); places have the size of values for this
/// reason.
void pool_rows(const float* __restrict above, const float* __restrict below, std::int64_t columns,
               float* __restrict largest, std::int32_t* __restrict places) {
  for (std::int64_t i = 0; i < columns; ++i) {
    float value = above[2 * i];
    std::int32_t place = 0;
    take_larger(above[2 * i + 1], 1, value, place);
    take_larger(below[2 * i], 2, value, place);
    take_larger(below[2 * i + 1], 3, value, place);
    largest[i] = value;
    places[i] = place;
  }
}

/// Gives the gradient of each window to the value that was the largest. The others are 0 already.
void spread_row(const float* gradient, const std::int32_t* places, std::int64_t columns, std::int64_t width,
                float* above) {
  for (std::int64_t i = 0; i < columns; ++i) {
    const auto place = places[i];
    above[(place >> 1) * width + 2 * i + (place & 1)] = 0.0F + gradient[i];  // as LibTorch, which makes 0 of -0
  }
}

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
