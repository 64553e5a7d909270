// What the actors of a run send each other, apart from parts (part.hpp, which explains the symbols): requests to
// compute, results and reports. Nothing here depends on the actor framework, so algorithms do not either. The interface
// headers (compute, worker, port, evaluator, coordinator, recorder) describe the conversations; docs/protocol.md lists
// all messages in order.
#pragma once

#include "troupe/algorithms/messages/mark.hpp"
#include "troupe/algorithms/messages/part.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// Local operations of a loop. The third kind of loop element is an exchange, which the worker handles itself.
enum class verb : std::uint8_t { gradient, apply };

/// Answer of an exchange: the values to apply and what they are.
struct outcome {
  stamp origin{};
  slot what{slot::gradient};
  std::vector<span> pieces{};  ///< Pieces in ascending order that cover the whole tensor.
  /// Latest version of the pieces. If the exchange has applied the gradient, the step at which the worker continues.
  std::uint64_t version{0};
  double lr_scale{1};              ///< Factor applied to the learning rate of the following `apply`.
  std::uint64_t payload_bytes{0};  ///< Tensor bytes that this port has sent to its peers since the run began.
  std::int64_t sample_count{0};    ///< Samples that the values represent, if the exchange reports them.
};

/// When the parameters of a snapshot were taken.
enum class snapshot_time : std::uint8_t {
  after_step,     ///< After the step in the snapshot's origin.
  before_mixing,  ///< As the worker contributed them to its last exchange of parameters before the end of that step.
  after_mixing,   ///< As that exchange left them.
};

/// Parameters and float buffers after `origin.step` completed steps.
struct snapshot {
  stamp origin;
  at::Tensor values;                            ///< [P + B], frozen.
  std::shared_ptr<const device::mark> ready{};  ///< See span::ready.
  snapshot_time taken{snapshot_time::after_step};
};

/// Batches that a worker draws from a queue shared by all workers.
struct assignment {
  std::uint64_t first_step{0};   ///< First step of the assignment, in the worker's own count from 0.
  std::uint64_t first_batch{0};  ///< Batch of that step; the following steps draw the following batches.
  std::uint64_t count{0};        ///< Number of steps, and of batches; at least 1.

  std::uint64_t end() const { return first_step + count; }  ///< The step after the last.
};

/// Destination of the last gradient of an `advance` if it leaves in buckets. Each bucket is sent to the exchange as the
/// worker's contribution as soon as backward has computed all of it.
struct bucket_destination {
  std::uint32_t place{0};
  /// Buckets in the order in which they leave; together they cover [0, P). If null, the gradient stays until it is
  /// returned in the answer.
  std::shared_ptr<const std::vector<range>> buckets{};
  bool on_device{false};  ///< The port accepts tensors on the device; otherwise they are first copied to the host.
};

/// Request to a compute actor: apply the outcomes in `with` in order, then run `verbs` in order `times` times, or fewer
/// after a `cancel`.
struct advance {
  std::vector<verb> verbs{};
  std::uint32_t times{1};
  snapshot from{};                 ///< State to start from: x.
  std::optional<part> gradient{};  ///< g, if one is still to be applied.
  std::vector<outcome> with{};     ///< Answers of exchanges: a new x, a new g, or a change of x.
  bucket_destination leaving{};    ///< Destination of the gradient if the last verb is `gradient`.
  /// Batches of this step and the following ones, as far as known; empty if each worker has batches of its own.
  std::vector<assignment> assigned{};
  /// Whether x and g are required in host memory; otherwise they may stay on the device that computed them.
  bool host_parameters{true}, host_gradient{true};
  double loss_sum{0};  ///< Initial value of advanced::loss_sum, so that its bits do not depend on the requests.
};

/// Result of an `advance`.
struct advanced {
  snapshot now;                  ///< Equal to `from` if nothing was applied.
  std::optional<part> gradient;  ///< g, [P], if it is still to be applied.
  double loss_sum{0};            ///< advance::loss_sum plus the losses of the samples, added one batch after the other.
  std::int64_t sample_count{0};  ///< Number of samples of the gradients computed.
  std::int64_t correct{0};       ///< Targets that the forward passes of these gradients classified correctly.
  std::int64_t classified{0};    ///< Targets that were counted; 0 if targets are not classes or nothing counted them.
  /// Tensor bytes that the exchange of synchronised norms has sent for this worker since the run began.
  std::uint64_t payload_bytes{0};
  bool host_parameters{true}, host_gradient{true};  ///< Whether x and g are in host memory. Always true on the CPU.
  double data_wait{0}, busy{0};  ///< Seconds spent waiting for samples, and seconds in total; 0 if not measured.
  double cpu{0};                 ///< Seconds of CPU time that the lane's thread has used; 0 if not measured.
  double loading_cpu{0};         ///< Seconds of CPU time that threads have used to make the batches; 0 if not measured.
};

/// Digests of a worker's parameters, one for each tensor of the network.
using digest_list = std::vector<std::uint32_t>;

/// Report that a worker has completed a step of interest to the coordinator: the end of an epoch, an evaluation, the
/// end of an assignment, or the end of the run.
struct milestone {
  rank_id rank{};
  std::uint64_t step{0};
  double loss_sum{0};                      ///< Sum over the samples since the worker's last milestone.
  std::int64_t sample_count{0};            ///< Number of these samples.
  std::int64_t correct{0}, classified{0};  ///< As in `advanced`, since the worker's last milestone.
  std::uint64_t bytes_sent{0};             ///< Tensor bytes that the worker's ports have sent since the run began.
  /// As in `advanced`, since the worker's last milestone.
  double data_wait{0}, busy{0}, cpu{0}, loading_cpu{0};
  double exchange_wait{0};  ///< Seconds that the worker has waited for exchanges since its last milestone.
};

/// Result of an evaluation over the whole validation set.
struct evaluation {
  std::uint64_t step{0};
  double loss{0};                          ///< Mean over the samples; with several shares, the mean of their means.
  std::optional<double> accuracy{};        ///< In [0, 1]; empty for regression data sets.
  std::optional<double> top_k_accuracy{};  ///< In [0, 1]; empty unless top-k accuracy was requested.
  std::int64_t sample_count{0};
};

/// What one worker has done since the run began.
struct worker_total {
  std::uint64_t steps{0};
  std::int64_t samples{0};
  std::uint64_t bytes_sent{0};
  /// Seconds of work in compute, of which `data_wait` were spent waiting for samples; seconds for which the worker
  /// waited for exchanges; CPU seconds of compute and of the threads that made its batches, 0 if not measured.
  double busy{0}, data_wait{0}, exchange_wait{0}, cpu{0}, loading_cpu{0};
};

/// What a guest made a run do.
struct steering_note {
  std::string what;            ///< One of pause, continue, checkpoint, halt, learning_rate.
  std::string guest;           ///< Name of the guest; empty in a replay.
  std::optional<double> lr{};  ///< learning_rate only: the new value of optimizer.lr.
  std::uint64_t from{0};       ///< learning_rate only: completed steps from which on it applies.
};

/// One line of metrics.jsonl, specified in docs/outputs.md. Values that do not apply are empty.
struct record {
  std::string event;       ///< One of start, resume, epoch, evaluation, steered, end.
  std::uint64_t epoch{0};  ///< Completed epochs.
  /// Steps completed by every worker; with a shared budget, the steps completed by all together, divided by n.
  std::uint64_t step{0};
  std::uint64_t updates{0};  ///< Number of updates applied.
  double seconds{0};         ///< Seconds since the first step began, on the actor clock.
  double train_seconds{0};   ///< Seconds without the time in which workers waited for an evaluation.
  std::optional<double> samples_per_second, train_loss, val_loss, val_accuracy;
  std::optional<double> val_top_k_accuracy;
  /// Accuracy of each worker's own parameters, by rank, if it was requested; NaN if there is none.
  std::vector<double> val_accuracy_workers{};
  std::optional<double> train_accuracy;    ///< Accuracy of the training forward passes, in [0, 1].
  std::optional<double> epoch_seconds;     ///< Training time since the last epoch; only for event epoch.
  std::optional<double> epoch_train_loss;  ///< Mean loss over the samples of the epoch; only for event epoch.
  std::optional<double> lr;                ///< Learning rate of the last step.
  std::optional<double> data_wait;         ///< Share of the workers' compute time spent waiting for samples, in [0, 1].
  /// Mean training loss of each worker since the last line, by rank; NaN for a worker without samples. Empty for a
  /// single worker, and for more than 64.
  std::vector<double> train_loss_workers{};
  std::uint64_t bytes_sent{0};
  std::optional<double> staleness_mean, staleness_max;  ///< Staleness of the gradients applied since the last line.
  /// Gradients refused since the run began; only if a server refuses late ones.
  std::optional<double> gradients_refused;
  std::optional<double> consensus_distance;  ///< sqrt(mean over workers of ‖xᵢ − x̄‖²), over the parameters.
  std::optional<double> consensus_distance_before;  ///< Consensus distance before the last exchange of parameters.
  std::optional<double> consensus_distance_after;   ///< Consensus distance right after the last exchange of parameters.
  std::optional<double> consensus_distance_max;     ///< Largest distance before an exchange; only for event end.
  /// Number of gradients since the run began, indexed by staleness; written to metrics.jsonl only for event end.
  std::vector<std::uint64_t> staleness_counts{};
  /// Totals of the workers, by rank; for more than 64 workers, only for event end. Written to workers.csv at the end.
  std::vector<worker_total> workers{};
  /// One of done, stopped_early, max_seconds, interrupted, halted, failed; only for event end.
  std::string status;
  std::optional<steering_note> steered{};  ///< Only for event steered.
  /// Setting of evaluate that stopped the run: target_accuracy or patience. Only with status stopped_early.
  std::string stopped_by{};
};

/// Shared memory on which workers in several processes of one host train; see shared_memory.hpp.
struct memory_handle {
  std::int64_t process{0};  ///< Id of the process that owns the memory.
  std::int32_t file{-1};    ///< File descriptor in that process.
};

}  // namespace troupe
