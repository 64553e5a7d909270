// Loss and accuracy of a network over a whole data set.
#pragma once

#include "troupe/algorithms/messages/messages.hpp"
#include "troupe/data/sets/dataset.hpp"
#include "troupe/models/networks/network.hpp"

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

namespace troupe::rules {

/// Counts of samples for one class.
struct class_counts {
  std::int64_t samples{0};  ///< Samples of this class.
  std::int64_t found{0};    ///< Samples predicted to be of this class.
  std::int64_t correct{0};  ///< Samples of this class that were predicted to be of it.
};

/// Precision is correct / found, recall correct / samples, F1 their harmonic mean; 0 where the divisor is 0.
struct class_merit {
  double precision{0}, recall{0}, f1{0};
};
class_merit merit_of(const class_counts& counts);

/// Options of an evaluation.
struct evaluation_options {
  std::int64_t batch_size{1000};
  /// Number of shares into which the set is divided, each evaluated separately: sample i goes to share i mod n, and the
  /// set is padded with its first samples to a multiple of n, as PyTorch's DistributedSampler(shuffle = False) does.
  std::int64_t shares{1};
  bool drop_last{false};                ///< Drop the last batch of each share if it is not full.
  std::optional<std::int64_t> top_k{};  ///< Also count how often a sample's class is among this many highest scores.
};

/// Returns how many samples of a set of `samples` each share has, before drop_last.
std::int64_t samples_per_share(std::int64_t samples, const evaluation_options& how);

/// Returns how many samples of a set of `samples` are evaluated, repeated ones included; may be 0.
std::int64_t evaluated_samples(std::int64_t samples, const evaluation_options& how);

/// Runs `net` without dropout over `set`. Returns the mean over the shares of each share's mean over its samples;
/// without drop_last it does not depend on the batch size beyond rounding. `by_class`, if not null, receives the counts
/// of each class, or stays empty for regression. Leaves `net` in evaluation mode. Returns nothing once `cancelled` (may
/// be null) is set. Throws std::invalid_argument if no sample is left to evaluate.
std::optional<evaluation> evaluate(models::network& net, const data::dataset& set, const data::normalisation& scale,
                                   const models::loss_function& loss, const evaluation_options& how,
                                   const std::atomic<bool>* cancelled = nullptr,
                                   std::vector<class_counts>* by_class = nullptr);

}  // namespace troupe::rules
