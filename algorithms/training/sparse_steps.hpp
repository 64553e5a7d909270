// Whole steps on sparse samples, directly on the parameters: no backward pass and no dense gradient.
#pragma once

#include "troupe/algorithms/training/replica_options.hpp"
#include "troupe/algorithms/training/worker_training.hpp"
#include "troupe/data/formats/checked_rows.hpp"
#include "troupe/models/storage/sparse_sgd.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace troupe {

/// Returns whether `request`, which `work` has begun, consists of sparse steps.
bool are_sparse_steps(const replica_options& options, const worker_training& work, const advance& request);

/// One thread at a time. `options` must outlive it.
class sparse_stepper {
 public:
  explicit sparse_stepper(const replica_options& options) : options_(options) {}

  /// Makes up to `most` steps of one epoch; returns how many.
  std::uint64_t run(worker_training& work, std::uint64_t most);

 private:
  std::uint64_t with_equal_rate(const worker_training& work, std::uint64_t most) const;
  void gather(std::span<const std::int64_t> rows);
  const float* shares();

  const replica_options& options_;
  data::checked_rows rows_;
  std::vector<models::sparse_sample> samples_;  ///< The samples of the steps under way.
  std::vector<float> share_;                    ///< See sparse_sgd_options::share.
};

}  // namespace troupe
