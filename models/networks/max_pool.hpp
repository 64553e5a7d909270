// Max pooling over windows of 2 x 2, bit for bit as in LibTorch's max_pool2d. The latter takes a quarter of the time of
// a step of a small convolutional network, because it handles windows of every size, stride and dilation one value at a
// time.
#pragma once

#include <ATen/core/Tensor.h>

namespace troupe::models {

/// Returns max_pool2d(x, 2): [N, C, H/2, W/2] of x [N, C, H, W]; the last row or column of an odd side is left out. In
/// a window, the first of equal values is the largest, and a NaN is larger than any number. It can be differentiated
/// once. Only contiguous float32 on the CPU takes the fast path; everything else is passed to LibTorch.
at::Tensor max_pool_2x2(const at::Tensor& x);

}  // namespace troupe::models
