// Stochastic gradient descent on sparse samples, straight on the parameters: a step reads and writes only the
// coordinates that its samples touch. The parameters may be written by others meanwhile, without a lock: Niu, Recht,
// Ré, Wright 2011, "Hogwild!", algorithm 1.
#pragma once

#include "troupe/models/flat.hpp"

#include <cstdint>
#include <pthread.h>
#include <span>

namespace troupe::models {

/// What is not zero of a sample, and what it stands for: a class (0 or 1), or a number.
struct sparse_sample {
  const std::int32_t* columns{nullptr};
  const float* values{nullptr};
  std::int32_t count{0};
  float target{0};
};

struct sparse_sgd_options {
  double lr{0.01};
  std::int64_t batch_size{1};  ///< Samples of a step: x moves by −lr times their mean gradient.
  /// λ of λ/2 ‖x‖². Each touched coordinate decays by λ · share[column], so that an epoch decays all alike in
  /// expectation (Hogwild!, section 2, equation 3). `share` [columns]: rows over rows that touch it; null where λ = 0.
  double weight_decay{0};
  const float* share{nullptr};
  /// Each addition is one indivisible operation: none is lost. Else a coordinate that two write at once may lose one.
  bool atomic{false};
  pthread_mutex_t* lock{nullptr};  ///< Held during each step; null: no lock.
};

/// Those of the models of these names, of type sparse_sgd. The columns of a sample are distinct.
/// Throw std::runtime_error where the lock's holder died: x may be halfway through a step.
double logistic_sgd(std::span<const sparse_sample> samples, const sparse_sgd_options& options,
                    const flat_layout& layout, float* x);
double svm_sgd(std::span<const sparse_sample> samples, const sparse_sgd_options& options, const flat_layout& layout,
               float* x);
double matrix_completion_sgd(std::span<const sparse_sample> samples, const sparse_sgd_options& options,
                             const flat_layout& layout, float* x);

}  // namespace troupe::models
