// Loss and accuracy of a network over a whole data set.
#pragma once

#include "troupe/actors/messages.hpp"
#include "troupe/data/dataset.hpp"
#include "troupe/models/network.hpp"

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

namespace troupe::rules {

/// How the samples of one class were taken.
struct class_counts {
  std::int64_t samples{0};  ///< That are of it.
  std::int64_t found{0};    ///< That were taken for it.
  std::int64_t correct{0};  ///< Both.
};

/// Precision correct / found, recall correct / samples, F1 their harmonic mean; 0 where nothing is divided by 0.
struct class_merit {
  double precision{0}, recall{0}, f1{0};
};
class_merit merit_of(const class_counts& counts);

/// Runs `net` without dropout over `set` in batches of `batch_size`; the mean over the samples does not depend on it
/// beyond rounding. `top_k`: counts, too, how often a sample's class is among so many highest scores. `by_class`: is
/// given counts of each class, or nothing where samples stand for numbers; may be null. Leaves `net` in evaluation
/// mode. Gives up, returning nothing, once `cancelled` (may be null) is set.
std::optional<evaluation> evaluate(models::network& net, const data::dataset& set, const data::normalisation& scale,
                                   models::loss_kind loss, std::int64_t batch_size,
                                   const std::atomic<bool>* cancelled = nullptr, std::optional<std::int64_t> top_k = {},
                                   std::vector<class_counts>* by_class = nullptr);

}  // namespace troupe::rules
