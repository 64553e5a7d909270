// Where the parameters of a worker live while it computes: in the messages, in shared memory, or in a copy that is
// merged into shared memory after some steps.
#pragma once

#include "troupe/algorithms/training/placement.hpp"
#include "troupe/algorithms/training/replica_options.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>

namespace troupe::models {
class exclusive_lock;
}

namespace troupe {

/// x during a request.
struct live_weights {
  snapshot now;
  bool own{false};  ///< Whether the tensor was made by this request and is not shared yet, so that it may be written.
};

/// How sparse steps write x.
struct sparse_access {
  bool atomic{false};
  models::exclusive_lock* lock{nullptr};
};

/// One thread at a time. Between two requests it keeps only caches and, to estimate staleness, when x was last read:
/// results depend only on the requests and the contents of the shared memory.
class parameter_store {
 public:
  virtual ~parameter_store() = default;

  /// Called at the beginning of a request, with the x of the request.
  virtual void begin(live_weights& x) = 0;

  /// Called before and after the passes of a gradient.
  virtual void before_gradient(live_weights& x) = 0;
  virtual void after_gradient(live_weights& x) = 0;

  /// Makes a step: calls `take_step` with the parameters [P], which it updates in place.
  virtual void step(live_weights& x, const std::function<void(const at::Tensor& parameters)>& take_step) = 0;

  /// Called before sparse steps on x.now.values. most_steps() returns how many of them may be made at once.
  virtual sparse_access before_sparse_steps(live_weights& x) = 0;
  virtual std::uint64_t most_steps(std::uint64_t wanted) const = 0;

  /// Called after `steps` steps.
  virtual void after_steps(live_weights& x, std::uint64_t steps) = 0;

  /// Replace x, or its first elements, by the answer of an exchange, or add the answer to them.
  virtual void replace(live_weights& x, const at::Tensor& values) = 0;
  virtual void add(live_weights& x, const at::Tensor& change) = 0;

  /// Called at the end of a request, before and after x is moved into the result.
  virtual void end(live_weights& x) = 0;
  virtual void hand_out(bool host_wanted, advanced& result) = 0;
};

/// Makes the store that the options choose; `where` and `options` must outlive it.
std::unique_ptr<parameter_store> make_store(const replica_options& options, placement& where);

}  // namespace troupe
