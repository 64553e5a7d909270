// How long a step of each candidate takes on the network: by simulation, without computing gradients.
#pragma once

#include "troupe/data/sets/dataset.hpp"
#include "troupe/models/storage/buffer_pool.hpp"
#include "troupe/runtime/plan/plan.hpp"
#include "troupe/tools/tuning/candidates.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace troupe::tuning {

/// What a step of a candidate takes on average, in virtual time.
struct pace {
  double seconds{0};    ///< Training time for each step of a worker.
  double megabytes{0};  ///< That each worker sends, on average.
};

/// What gradients and evaluations take on this machine.
struct real_times {
  double gradient{0};    ///< Seconds of a gradient of one worker.
  double evaluation{0};  ///< Seconds of an evaluation.
};

/// The data and the initial weights of a topology file, which all its candidates share.
class rehearsal {
 public:
  /// Reads the data of `base`. Throws input_error.
  explicit rehearsal(const topology::topology& base);

  /// Measures a gradient on this machine, and sets simulate.gradient of `base` if it is "measure".
  real_times measure(topology::topology& base);

  /// Returns the pace of a candidate, of which a few rounds of its exchanges are simulated. Throws std::runtime_error
  /// if it cannot be planned or simulated.
  pace pace_of(const topology::topology& file);

  /// Returns the plan of a candidate, in whose file exchanges have no settings without effect. Throws
  /// std::runtime_error if one of its exchanges takes place fewer than `least` times.
  plan planned(const topology::topology& file, std::uint64_t least) const;

 private:
  data::dataset_pair data_;
  models::buffer_pool pool_;
  at::Tensor initial_;
};

}  // namespace troupe::tuning
