// Stochastic gradient descent on sparse samples directly on the parameters: a step reads and writes only the
// coordinates that its samples touch. Other threads and processes may write the parameters concurrently without a lock:
// Niu, Recht, Ré, Wright 2011, "Hogwild!", algorithm 1.
#pragma once

#include "troupe/models/storage/flat.hpp"

#include <cstdint>
#include <span>

namespace troupe::models {

class exclusive_lock;

/// Nonzeros of a sample and its target: a class (0 or 1) or a number.
struct sparse_sample {
  const std::int32_t* columns{nullptr};
  const float* values{nullptr};
  std::int32_t count{0};
  float target{0};
};

struct sparse_sgd_options {
  double lr{0.01};
  std::int64_t batch_size{1};  ///< Samples per step: x moves by −lr times their mean gradient.
  /// λ of λ/2 ‖x‖². Each touched coordinate decays by λ · share[column], so that in expectation an epoch decays all
  /// coordinates alike (Hogwild!, section 2, equation 3). `share` [columns] is the number of rows divided by the number
  /// of rows that touch the column; null if λ = 0.
  double weight_decay{0};
  const float* share{nullptr};
  /// Whether each addition is atomic, so that none is lost. Otherwise one of two concurrent writes to a coordinate may
  /// be lost.
  bool atomic{false};
  exclusive_lock* lock{nullptr};  ///< Held during each step; null for none.
  double loss_sum{0};             ///< Sum of the losses of earlier steps, which the result continues.
};

/// The sparse_sgd functions of the models with these names. The columns of a sample must be distinct. They throw
/// std::runtime_error if the lock's holder died, which may leave x halfway through a step.
double logistic_sgd(std::span<const sparse_sample> samples, const sparse_sgd_options& options,
                    const flat_layout& layout, float* x);
double svm_sgd(std::span<const sparse_sample> samples, const sparse_sgd_options& options, const flat_layout& layout,
               float* x);
double matrix_completion_sgd(std::span<const sparse_sample> samples, const sparse_sgd_options& options,
                             const flat_layout& layout, float* x);

}  // namespace troupe::models
