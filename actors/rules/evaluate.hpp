// Loss and accuracy of a network over a whole data set.
#pragma once

#include "troupe/actors/messages.hpp"
#include "troupe/data/dataset.hpp"
#include "troupe/models/network.hpp"

#include <atomic>
#include <cstdint>
#include <optional>

namespace troupe::rules {

/// `top_k`: counts, too, how often a sample's class is among so many highest scores.
/// Runs `net` without dropout over `set` in batches of `batch_size`; the mean over the samples does not depend on it
/// beyond rounding. Leaves `net` in evaluation mode. Gives up, returning nothing, once `cancelled` (may be null) is
/// set.
std::optional<evaluation> evaluate(models::network& net, const data::dataset& set, const data::normalisation& scale,
                                   models::loss_kind loss, std::int64_t batch_size,
                                   const std::atomic<bool>* cancelled = nullptr,
                                   std::optional<std::int64_t> top_k = {});

}  // namespace troupe::rules
