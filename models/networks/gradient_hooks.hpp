// Notifies when each gradient is complete, while backward still computes the others.
#pragma once

#include "troupe/models/networks/network.hpp"
#include "troupe/models/networks/samples.hpp"

#include <cstddef>
#include <functional>
#include <vector>

namespace troupe::models {

/// Makes each backward pass call `ready(i)` when the gradient of a learnable parameter is complete, on the thread that
/// computes it; i counts as in flat_layout::parameters. Call it once per network; it cannot be undone.
void watch_gradients(network& net, std::function<void(std::size_t)> ready);

/// Returns the indices of all learnable parameters in the order in which a backward pass completes their gradients,
/// determined by one pass over two random samples; those that get none come last, in the reverse order of registration.
/// `fed` is the kind of the samples; `sequences` is set if each of their positions has a target. Uses up `net`: its
/// weights and gradients are changed.
std::vector<std::size_t> gradient_order(network& net, const network_shape& shape, const loss_function& loss,
                                        sample_kind fed = sample_kind::images, bool sequences = false);

/// Returns the indices of the learnable parameters that get no gradient in such a pass, ascending. Uses up `net`.
std::vector<std::size_t> without_gradient(network& net, const network_shape& shape, const loss_function& loss,
                                          sample_kind fed = sample_kind::images, bool sequences = false);

}  // namespace troupe::models
