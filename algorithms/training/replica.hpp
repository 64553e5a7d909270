// One copy of the network, with its optimizer state and one worker's samples: the part of a compute actor that runs on
// its lane. No actor. It reads a clock only to measure its time. One thread at a time.
#pragma once

#include "troupe/algorithms/training/bucket_watch.hpp"
#include "troupe/algorithms/training/replica_options.hpp"

#include <atomic>
#include <memory>

namespace troupe {

class replica {
 public:
  explicit replica(replica_options options);
  explicit replica(std::shared_ptr<const replica_options> options);
  ~replica();

  using bucket_sink = troupe::bucket_sink;

  /// Executes `request`; stops after the step under way once `cancelled` is set. Throws std::runtime_error if the loss
  /// is not finite, and whatever LibTorch throws.
  advanced run(const advance& request, const std::atomic<bool>& cancelled, const bucket_sink& leave);

  /// Returns what the next run() depends on besides its arguments, on the CPU: the optimizer's state, and counters. All
  /// else (samples, their augmentation, dropout) is a function of the step. Empty at the beginning of a run.
  state_dict state() const;

  /// Continues from a state(). Throws state_error if `saved` does not fit.
  void restore(const state_dict& saved);

 private:
  struct parts;
  std::unique_ptr<parts> parts_;
};

}  // namespace troupe
