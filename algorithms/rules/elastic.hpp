// Elastic averaging: worker and centre move towards each other. Zhang, Choromanska, LeCun, "Deep learning with Elastic
// Averaging SGD", 2015, Algorithm 1 and equations 2 and 3, in its symbols: xⁱ is a worker's parameters, x̃ the centre,
// α the moving rate. All tensors are float32, [m]; loops are our own, without contraction, and results are fresh from
// the pool.
#pragma once

#include "troupe/models/storage/buffer_pool.hpp"

#include <ATen/core/Tensor.h>

#include <vector>

namespace troupe::rules {

/// Returns xⁱ − α(xⁱ − x̃), rounded per element after each operation.
at::Tensor pulled_to_centre(const at::Tensor& position, const at::Tensor& centre, double alpha,
                            models::buffer_pool& pool);

/// Returns x̃ + α(((x⁰ − x̃) + (x¹ − x̃)) + …), folded in the order of `positions`.
at::Tensor moved_centre(const at::Tensor& centre, const std::vector<at::Tensor>& positions, double alpha,
                        models::buffer_pool& pool);

/// Effect of one worker's visit: the new centre and the change that the worker adds to its own parameters, based on d =
/// α(xⁱ − x̃).
struct elastic_visit {
  at::Tensor centre;  ///< x̃ + d.
  at::Tensor change;  ///< −d.
};

elastic_visit visited_centre(const at::Tensor& centre, const at::Tensor& position, double alpha,
                             models::buffer_pool& pool);

}  // namespace troupe::rules
