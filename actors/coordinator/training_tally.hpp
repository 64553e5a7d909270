// Sums of what workers report about training between two points of a run.
#pragma once

#include "troupe/algorithms/messages/messages.hpp"

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace troupe::rules {

class training_tally {
 public:
  void add(const milestone& one) {
    loss_sum_ += one.loss_sum;
    samples_ += one.sample_count;
    correct_ += one.correct;
    classified_ += one.classified;
  }

  void add(const training_tally& other) {
    loss_sum_ += other.loss_sum_;
    samples_ += other.samples_;
    correct_ += other.correct_;
    classified_ += other.classified_;
  }

  /// Returns the sums as a milestone. Adding it to an empty tally restores them.
  milestone sums() const {
    milestone total;
    total.loss_sum = loss_sum_;
    total.sample_count = samples_;
    total.correct = correct_;
    total.classified = classified_;
    return total;
  }

  std::int64_t samples() const { return samples_; }

  /// Returns the mean loss over the samples, or nothing if there are none.
  std::optional<double> loss() const { return share(loss_sum_, samples_); }

  /// Returns the share of correctly classified targets, or nothing if none were counted.
  std::optional<double> accuracy() const { return share(static_cast<double>(correct_), classified_); }

  /// Returns samples per second, or nothing if either value is 0.
  std::optional<double> rate(double seconds) const {
    return samples_ > 0 && seconds > 0 ? std::optional{static_cast<double>(samples_) / seconds} : std::nullopt;
  }

 private:
  static std::optional<double> share(double part, std::int64_t whole) {
    return whole > 0 ? std::optional{part / static_cast<double>(whole)} : std::nullopt;
  }

  double loss_sum_{0};
  std::int64_t samples_{0}, correct_{0}, classified_{0};
};

/// Returns the mean training loss of each worker, by rank; NaN for a worker without samples. Returns an empty list for
/// a single worker, and for more than 64.
inline std::vector<double> losses_by_worker(const std::vector<milestone>& all, std::size_t workers) {
  constexpr std::size_t most_listed = 64;
  if (workers == 1 || workers > most_listed) return {};
  std::vector<training_tally> tallies(workers);
  for (const auto& reached : all) tallies.at(static_cast<std::size_t>(reached.rank)).add(reached);
  std::vector<double> losses;
  for (const auto& tally : tallies) losses.push_back(tally.loss().value_or(std::numeric_limits<double>::quiet_NaN()));
  return losses;
}

}  // namespace troupe::rules
