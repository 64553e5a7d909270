// State of one worker: its optimizer's state, its samples, its parameters and its counters. The network is in
// engine.hpp: any worker of the same plan can use it, and the functions here receive it as an argument.
#pragma once

#include "troupe/algorithms/training/batches.hpp"
#include "troupe/algorithms/training/bucket_watch.hpp"
#include "troupe/algorithms/training/engine.hpp"
#include "troupe/algorithms/training/loss_tally.hpp"
#include "troupe/algorithms/training/parameter_store.hpp"
#include "troupe/algorithms/training/replica_options.hpp"

#include <cstdint>
#include <memory>
#include <optional>

namespace troupe {

/// One thread at a time. `options` and `where` must outlive it.
class worker_training {
 public:
  worker_training(const replica_options& options, placement& where);

  /// Begin and end the work on a request; end() returns its result.
  void begin(engine& on, const advance& request);
  advanced end(engine& on, const advance& request);

  /// Applies the answer of an exchange out of place: x ← answer, g ← answer, or x ← x + answer.
  void take_in(engine& on, const outcome& answer);

  /// Computes g, the mean gradient of this worker's batch at x. If g leaves in buckets, each bucket goes to `leave` as
  /// soon as the last micro-batch has computed it.
  void compute_gradient(engine& on, const bucket_destination& leaving, const bucket_sink& leave);

  /// Updates x by one step of the optimizer along g.
  void apply();

  /// Returns what the next request depends on besides its arguments; see replica::state().
  state_dict state() const;
  void restore(const state_dict& saved);

  // The work under way; sparse_steps.hpp also uses it.
  batches samples;
  std::unique_ptr<parameter_store> store;
  live_weights x;
  std::optional<part> gradient;
  loss_tally tally;
  /// Factor of the learning rate of the next step. It is kept between requests, because the answer that sets it and the
  /// step may be in different requests.
  double lr_scale{1};

 private:
  struct pass_result;

  void skip_gradient(engine& on, const bucket_destination& leaving, const bucket_sink& leave);
  part begin_gradient(engine& on, std::uint32_t place, std::int64_t sample_count) const;
  pass_result run_pass(engine& on, std::int64_t i);
  models::group_means mean_over_workers(placement& where, std::size_t layer, bool backward, const at::Tensor& own,
                                        std::int64_t samples);
  double computed_after(double share) const;
  void add(const pass_result& one);

  const replica_options& options_;
  std::unique_ptr<troupe::optimizer> optimizer_;
  twin last_gradient_;
  double gradients_{0};             ///< Number of gradients that the request has computed.
  std::int64_t parts_{1};           ///< Number of passes of the gradient under way.
  std::uint64_t pass_{0};           ///< Number of the pass in its step; the exchange of the norms counts passes.
  std::uint64_t payload_bytes_{0};  ///< Bytes that the exchange of the norms has sent for this worker.
};

}  // namespace troupe
