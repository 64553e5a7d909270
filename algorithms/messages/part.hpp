// What members and servers of an exchange send each other: parts of tensors, and where they come from.
//
// Symbols: there are n workers. Flat storage has P elements of parameters (padding included), followed by B elements of
// float buffers. Steps are counted from 0; a step is completed once its outcome is applied.
//
// Tensors are float32 and contiguous, except for the values of encoded parts. They are on the CPU unless a message says
// that they may be on a worker's device. A tensor is FROZEN once sent: receivers may read it for as long as they hold
// it and must never write it. Serialising a message that holds a tensor is an error; between nodes, a transport carries
// parts and snapshots through actors with the same interface.
#pragma once

#include "troupe/algorithms/messages/mark.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace troupe {

/// Identifies a run: the same in all processes of the run, and unchanged when the run is continued.
enum class run_id : std::uint64_t {};
/// Position of a worker in the topology file, from 0. Sums are folded in this order. The servers of an exchange have
/// the numbers from n on.
enum class rank_id : std::uint32_t {};

/// What the values of a part or an outcome are, and therefore how they change the receiver's state.
enum class slot : std::uint8_t {
  parameters,  ///< The values replace x.
  gradient,    ///< The values replace g, the gradient that the next `apply` uses.
  change,      ///< The values are added to x.
};

/// Progress of a part from one worker's values to the values that all workers apply.
enum class stage : std::uint8_t {
  contribution,  ///< One worker's own values, unweighted.
  partial,       ///< Sum over some ranks, weighted by sample count and not yet divided.
  result,        ///< The answer of the exchange.
};

/// How the values of a part are encoded between its sender and its receiver: the number of a codec. Further codecs can
/// be registered.
enum class encoding : std::uint8_t {
  float32 = 1,
  bfloat16,  ///< The upper half of a float32, rounded to nearest, ties to even.
};

/// Origin of a tensor. An actor that merges tensors rejects those that do not fit or were merged before.
struct stamp {
  run_id run{};      ///< Run to which the tensor belongs.
  rank_id sender{};  ///< Rank whose port or worker sent the tensor, whether it computed the tensor or forwarded it.
  /// Membership under which the tensor was made; increases when the set of workers is re-formed.
  std::uint32_t generation{0};
  std::uint64_t step{0};     ///< Number of steps the sender had completed.
  std::uint64_t version{0};  ///< Version of the parameters from which the tensor was computed.
};

/// Identifies one tensor of a step. The plan orders all keys.
struct key {
  std::uint32_t place{0};  ///< Index of the exchange in the plan.
  std::uint32_t part{0};   ///< Index of the shard, parameter, chunk or bucket within the exchange.
};

/// Elements [first, first + count) of the flat storage.
struct range {
  std::int64_t first{0};                          ///< First element.
  std::int64_t count{0};                          ///< Number of elements.
  bool operator==(const range&) const = default;  ///< Equal if both fields are.
};

/// Elements [first, first + values.numel()) of the flat storage [P | B].
struct span {
  std::int64_t first{0};  ///< First element.
  at::Tensor values;      ///< [m], frozen.
  /// Marks the point on the device's stream after which the values are valid; empty on the CPU.
  std::shared_ptr<const device::mark> ready{};
};

/// Tensor sent between a worker, its port and the ports of its peers.
struct part {
  stamp origin{};                   ///< Origin of the values.
  key which{};                      ///< Identifies the tensor within its step.
  slot what{slot::gradient};        ///< What the values are.
  stage at{stage::contribution};    ///< Progress of the values towards an answer.
  encoding how{encoding::float32};  ///< Encoding of the values. Members see float32 only.
  span piece{};                     ///< The values and the range of elements that they belong to.
  std::int64_t elements{0};         ///< Number of values of an encoded piece; 0 if they are float32.
  std::int64_t total{0};            ///< Number of elements of the whole tensor of which `piece` is a part.
  /// Samples that the values represent: the weight of a contribution, or the sum of the weights of a partial.
  std::int64_t sample_count{0};
  double mass{1};  ///< Push-sum weight.
  /// Released once the member has taken the part, so that a transport can count how much it may still send. Often
  /// empty.
  std::shared_ptr<const void> receipt{};
};

/// Staleness of the gradients that a server has applied since the run began: the server's version when it applied a
/// gradient minus the version from which that gradient was computed.
struct staleness_tally {
  /// Counts indexed by staleness; the last entry also counts all larger values.
  std::vector<std::uint64_t> counts{};
  std::uint64_t applied{0};  ///< Number of gradients that were applied.
  std::uint64_t sum{0};      ///< Sum of their staleness.
  std::uint64_t most{0};     ///< Largest staleness.
  std::uint64_t refused{0};  ///< Number of gradients that arrived too late and were not applied.
};

/// State held by a server of an exchange.
struct holding {
  span piece{};                 ///< The server's share of the parameters.
  std::uint64_t version{0};     ///< Number of updates applied to that share.
  staleness_tally staleness{};  ///< Staleness of the gradients from which these updates were made.
};

}  // namespace troupe
