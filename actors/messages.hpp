// Every message that actors exchange, on one page. Conversations are in the interfaces (compute, worker, port,
// evaluator, coordinator, recorder); who sends what when is drawn in docs/protocol.md.
//
// Symbols: n workers; P elements of flat parameters (padding included), B of float buffers behind them; a step is
// counted from 0 and called completed once its outcome is applied. Tensors are float32, contiguous, on the CPU
// except where a message says that they may be on a worker's device, and
// FROZEN once sent: a receiver reads them for as long as it holds them and never writes. It is an error to serialise a
// message that holds one; between nodes a transport carries parts and snapshots, behind actors of the same
// interface.
#pragma once

#include "troupe/actors/device/mark.hpp"

#include <ATen/core/Tensor.h>
#include <caf/actor_control_block.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

enum class run_id : std::uint64_t {};
/// Position of a worker in the topology file, from 0. Sums are folded in this order. The servers of an exchange count
/// on from n.
enum class rank_id : std::uint32_t {};

/// What the values of a part or an outcome are, and so what they do to the receiver's state.
enum class slot : std::uint8_t {
  parameters,  ///< Replace x.
  gradient,    ///< Replace g, the gradient that the next `apply` steps with.
  change,      ///< Are added to x.
};

/// How far a part has come on its way from one worker's values to what all apply.
enum class stage : std::uint8_t {
  contribution,  ///< One worker's own values, unweighted.
  partial,       ///< Fold of some ranks, weighted by sample count, not yet divided.
  result,        ///< What the exchange answers.
};

/// The local verbs of a loop. An exchange is the third, and the worker's own business.
enum class verb : std::uint8_t { gradient, apply };

/// Where a tensor comes from. A merging actor refuses what does not fit, and what it has merged before.
struct stamp {
  run_id run{};                 ///< Run the tensor belongs to.
  rank_id sender{};             ///< Rank it comes from: whose port or worker sent it, be it made there or handed on.
  std::uint32_t generation{0};  ///< Membership it was made under; grows when the troupe is re-formed.
  std::uint64_t step{0};        ///< Sender's completed steps.
  std::uint64_t version{0};     ///< Version of the parameters it was computed from.
};

/// Names one tensor of a step. The plan orders all keys.
struct key {
  std::uint32_t place{0};  ///< Which exchange of the plan.
  std::uint32_t part{0};   ///< Which shard, parameter, chunk or bucket of it.
};

/// Elements [first, first + count) of the flat storage.
struct range {
  std::int64_t first{0};
  std::int64_t count{0};
  bool operator==(const range&) const = default;
};

/// Elements [first, first + values.numel()) of the flat storage [P | B].
struct span {
  std::int64_t first{0};
  at::Tensor values;  ///< [m], frozen.
  /// On a device: what has computed the values; empty on the CPU.
  std::shared_ptr<const device::mark> ready{};
};

/// What travels between a worker, its port and the ports of its peers.
struct part {
  stamp origin{};
  key which{};
  slot what{slot::gradient};
  stage at{stage::contribution};
  span piece{};
  std::int64_t total{0};         ///< Elements of the whole, of which `piece` is one part.
  std::int64_t sample_count{0};  ///< Samples behind the values: the weight of a contribution, the sum of a partial.
  double mass{1};                ///< Push-sum weight.
  /// Let go of by the port once it has taken the part: by it a transport counts what it may still send. Often empty.
  std::shared_ptr<const void> receipt{};
};

/// What an exchange answers: the values to apply, and what they are.
struct outcome {
  stamp origin{};
  slot what{slot::gradient};
  std::vector<span> pieces{};             ///< Ascending, covering the whole.
  std::vector<std::uint64_t> versions{};  ///< Store wirings: the version of each shard.
  double lr_scale{1};                     ///< Factor on the learning rate of the `apply` that follows.
  bool counted{true};                     ///< False when the contribution was refused and only counted.
  std::uint64_t payload_bytes{0};         ///< Tensor bytes this port has sent to its peers since the run began.
  std::int64_t sample_count{0};           ///< Samples behind the values, where the exchange tells.
};

/// Parameters and float buffers after `origin.step` completed steps.
struct snapshot {
  stamp origin;
  at::Tensor values;                            ///< [P + B], frozen.
  std::shared_ptr<const device::mark> ready{};  ///< As of a span.
};

/// Where the last gradient of an `advance` goes in buckets, each as soon as backward has computed all of it: the
/// worker's contribution to an exchange, sent for it.
struct departure {
  caf::strong_actor_ptr port{};  ///< A peer_port; none: the gradient stays until it is answered.
  std::uint32_t place{0};
  /// In the order of leaving; together they cover [0, P).
  std::shared_ptr<const std::vector<range>> buckets{};
  bool on_device{false};  ///< The port takes tensors where the device has them; else they come to the host first.
};

/// Asks a compute actor for local work: to take in `with`, in order, and then to do `verbs` in order, `times` times
/// over, or fewer after a `cancel`.
struct advance {
  std::vector<verb> verbs{};
  std::uint32_t times{1};
  snapshot from{};                 ///< Where to begin: x.
  std::optional<part> gradient{};  ///< g, where one is still to be applied.
  std::vector<outcome> with{};     ///< What exchanges have answered: new x, new g, or a change of x.
  departure leaving{};             ///< Of the last verb, where that is `gradient`.
  /// Whether x and g are wanted in the host's memory; else they may stay on the device that computed them.
  bool host_parameters{true}, host_gradient{true};
};

/// What came of it.
struct advanced {
  snapshot now;                  ///< `from` itself if nothing was applied or taken in.
  std::optional<part> gradient;  ///< g, [P], where it is still to be applied.
  double loss_sum{0};            ///< Sum over the samples of the gradients computed.
  std::int64_t sample_count{0};  ///< How many those are.
  std::int64_t correct{0};       ///< Targets that these gradients' forward passes put into their class …
  std::int64_t classified{0};    ///< … of so many; 0 where targets are not classes, or nothing counted them.
  /// Tensor bytes that the exchange of synchronised norms has sent for this worker since the run began.
  std::uint64_t payload_bytes{0};
  bool host_parameters{true}, host_gradient{true};  ///< Whether x and g are there. On the CPU they always are.
  double data_wait{0}, busy{0};  ///< Seconds spent waiting for samples, of all that were spent; 0: not measured.
};

/// A worker has completed a step that the coordinator asked to hear of: the end of an epoch, an evaluation, the end.
struct milestone {
  rank_id rank{};
  std::uint64_t step{0};
  double loss_sum{0};                      ///< Over the samples since the worker's last milestone.
  std::int64_t sample_count{0};            ///< How many those are.
  std::int64_t correct{0}, classified{0};  ///< As of `advanced`, since the worker's last milestone.
  std::uint64_t bytes_sent{0};             ///< Tensor bytes that the worker's ports have sent since the run began.
  double data_wait{0}, busy{0};            ///< As of `advanced`, since the worker's last milestone.
};

/// How stale the gradients were that a server has applied since the run began: its version when it applied one, less
/// the version that one was computed from.
struct staleness_tally {
  std::vector<std::uint64_t> counts{};  ///< By staleness; the last entry counts all beyond it too.
  std::uint64_t applied{0}, sum{0}, most{0};
};

/// What a server of an exchange holds.
struct holding {
  span piece{};              ///< Its share of the parameters.
  std::uint64_t version{0};  ///< Updates it has made of them.
  staleness_tally staleness{};
};

/// What the evaluator found, over the whole validation set.
struct evaluation {
  std::uint64_t step{0};
  double loss{0};                          ///< Mean over the samples; of shares, the mean of theirs.
  std::optional<double> accuracy{};        ///< In [0, 1]; none where samples stand for numbers.
  std::optional<double> top_k_accuracy{};  ///< Likewise, where it was asked for.
  std::int64_t sample_count{0};
};

/// One line of metrics.jsonl; its meaning is fixed in docs/outputs.md. What does not apply is empty.
struct record {
  std::string event;         ///< start, epoch, evaluation, end.
  std::uint64_t epoch{0};    ///< Completed epochs.
  std::uint64_t step{0};     ///< Steps completed by every worker.
  std::uint64_t updates{0};  ///< Updates applied.
  double seconds{0};         ///< Since the first step began, on the actor clock.
  double train_seconds{0};   ///< The same without the time in which workers waited for an evaluation.
  std::optional<double> samples_per_second, train_loss, val_loss, val_accuracy;
  std::optional<double> val_top_k_accuracy;
  std::optional<double> train_accuracy;    ///< In [0, 1]: of the forward passes in training.
  std::optional<double> epoch_seconds;     ///< Of `epoch`: training time since the last one.
  std::optional<double> epoch_train_loss;  ///< Of `epoch`: mean over its samples; `train_loss` is since the last line.
  std::optional<double> lr;                ///< Of the step before.
  std::optional<double> data_wait;         ///< In [0, 1]: share of their time that computes waited for samples.
  std::uint64_t bytes_sent{0};
  std::optional<double> staleness_mean, staleness_max;  ///< Of the gradients applied since the last line.
  std::optional<double> consensus_distance;  ///< sqrt(mean over workers of ‖xᵢ − x̄‖²), over the parameters.
  std::vector<std::uint64_t> staleness_counts{};  ///< Of `end`: gradients of the whole run, by staleness.
  std::string status;                             ///< Of `end`: done, stopped_early, max_seconds, interrupted.
};

/// What a node says of itself when it joins a run. Everything but its name and the fingerprint must be the same on all.
struct introduction {
  std::string node;                                ///< Its name in the topology file.
  std::uint32_t protocol{0};                       ///< Version of the messages and frames.
  std::string version;                             ///< Of Troupe.
  std::string topology;                            ///< Canonical text of the file: see topology::canonical.
  std::string weights;                             ///< Digest of the weights it would begin with.
  std::string data;                                ///< Digest of its training and validation samples.
  std::map<std::string, std::string> fingerprint;  ///< What the bits of a result depend on: see node/fingerprint.hpp.
};

/// A memory that workers of several processes of one host train on: see shared_memory.hpp.
struct memory_handle {
  std::int64_t process{0};  ///< Whose it is.
  std::int32_t file{-1};    ///< Its descriptor there.
};

/// What the first node answers.
struct welcome {
  std::string session{};                  ///< 16 random bytes that the connections of this run are opened with.
  caf::strong_actor_ptr coordinator{};    ///< A milestone_sink.
  caf::strong_actor_ptr recorder{};       ///< A progress_sink.
  std::vector<memory_handle> memories{};  ///< By exchange; of those that are none, empty handles.
};

}  // namespace troupe
