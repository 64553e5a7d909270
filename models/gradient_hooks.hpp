// Who hears of a gradient as soon as it is there, while backward still works at the others.
#pragma once

#include "troupe/models/network.hpp"
#include "troupe/models/samples.hpp"

#include <cstddef>
#include <functional>
#include <vector>

namespace troupe::models {

/// Has `ready(i)` called in each backward pass when the gradient of a learnable parameter is complete, by the thread
/// that computes it; i counts as flat_layout::parameters does. Once for a network, and for good.
void watch_gradients(network& net, std::function<void(std::size_t)> ready);

/// Returns the same indices, of all learnable parameters, in the order in which their gradients come in a backward
/// pass, found by one over two random samples; those that get none are last, in the reverse order of registration.
/// `fed`: what the samples are; `sequences`: each of their positions has a target. `net` is used up: its weights and
/// gradients are changed.
std::vector<std::size_t> gradient_order(network& net, const network_shape& shape, loss_kind loss,
                                        sample_kind fed = sample_kind::images, bool sequences = false);

}  // namespace troupe::models
