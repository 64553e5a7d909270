// Servers that hold the parameters, receive gradients, apply them, and answer with the updated parameters.
#pragma once

#include "troupe/algorithms/exchange/registry.hpp"

namespace troupe {

/// Returns the kind.
/// `apply = "all"`: one step along the mean of all workers' gradients, folded in rank order: synchronous SGD.
/// `apply = "each"`: a step along each gradient as it arrives, which may then be stale: asynchronous SGD.
/// The parameters are spread over `shards` servers, each with its own optimizer state and version.
/// Sources: Li et al., "Scaling Distributed Machine Learning with the Parameter Server", OSDI 2014; Dean et al., "Large
/// Scale Distributed Deep Networks", NIPS 2012, §4.1 (Downpour SGD, with fetches and pushes at every step).
exchange_kind parameter_server_kind();

}  // namespace troupe
