// Which tensors of a flat gradient have no gradient, as opposed to a gradient of zeros: the loss does not depend on
// them in this step (PyTorch: grad is None). An optimizer skips them.
//
// MG-1: a tensor has no gradient if all of its elements are −0. −0 is the neutral element of addition and remains −0
// if it is multiplied or divided by a positive number. Therefore, a weighted sum or mean of gradients has none exactly
// where no summand has one, whichever exchange computes it, and nothing else needs to be sent.
// MG-2: a gradient that was computed does not consist of −0, because backward passes add it to +0. The only exception
// is a gradient whose elements are all rounded to −0 by a mean or an encoding: all of them are below 1e-38.
// MG-3: with error feedback, or an encoding that sends a share of the values or their signs, a tensor without a
// gradient becomes one of zeros, or of what was left over, because it shares messages with others.
#pragma once

#include "troupe/algorithms/messages/part.hpp"

#include <ATen/core/Tensor.h>

#include <vector>

namespace troupe::rules {

/// Marks in `gradient` [P], float32, that `tensor` has no gradient.
void mark_missing(const at::Tensor& gradient, const range& tensor);

/// Returns, for each of `tensors`, whether it has no gradient in `gradient` [P], float32. On an accelerator, waits for
/// its work.
std::vector<bool> missing_in(const at::Tensor& gradient, const std::vector<range>& tensors);

}  // namespace troupe::rules
