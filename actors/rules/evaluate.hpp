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

/// How a data set is evaluated.
struct evaluation_options {
  std::int64_t batch_size{1000};
  /// Shares that the set is divided into, each evaluated by itself: sample i goes to share i mod n, and the set is
  /// padded with its first samples to a multiple of n, as PyTorch's DistributedSampler(shuffle = False) does.
  std::int64_t shares{1};
  bool drop_last{false};                ///< Each share leaves out its last batch where that is not full.
  std::optional<std::int64_t> top_k{};  ///< Also counts how often a sample's class is among so many highest scores.
};

/// Returns how many samples of a set of `samples` each share has, before drop_last.
std::int64_t samples_per_share(std::int64_t samples, const evaluation_options& how);

/// Returns how many samples of a set of `samples` are evaluated, repeated ones included; may be none.
std::int64_t evaluated_samples(std::int64_t samples, const evaluation_options& how);

/// Runs `net` without dropout over `set`. Returns the mean over the shares of each share's mean over its samples, which
/// without drop_last does not depend on the batch size beyond rounding. `by_class`: is given counts of each class, or
/// nothing where samples stand for numbers; may be null. Leaves `net` in evaluation mode. Gives up, returning nothing,
/// once `cancelled` (may be null) is set. Throws std::invalid_argument where no sample is left to evaluate.
std::optional<evaluation> evaluate(models::network& net, const data::dataset& set, const data::normalisation& scale,
                                   models::loss_kind loss, const evaluation_options& how,
                                   const std::atomic<bool>* cancelled = nullptr,
                                   std::vector<class_counts>* by_class = nullptr);

}  // namespace troupe::rules
