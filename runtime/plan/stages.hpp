// The stages in which a plan is made: the data, the division of the work, the model, the exchanges, the links, and the
// training. Each stage is a type that extends the one before it, so that a function can read no later stage than that
// of its parameter. plan.hpp has the complete plan.
#pragma once

#include "troupe/algorithms/exchange/around/encoder.hpp"
#include "troupe/algorithms/exchange/around/group.hpp"
#include "troupe/algorithms/exchange/registry.hpp"
#include "troupe/algorithms/rules/schedule.hpp"
#include "troupe/algorithms/training/optimizer.hpp"
#include "troupe/data/sampling/augment.hpp"
#include "troupe/data/sampling/sampler.hpp"
#include "troupe/data/sets/dataset.hpp"
#include "troupe/data/sets/sparsity.hpp"
#include "troupe/models/networks/network.hpp"
#include "troupe/models/networks/samples.hpp"
#include "troupe/models/storage/flat.hpp"
#include "troupe/models/storage/tied.hpp"
#include "troupe/net/channels/endpoint.hpp"
#include "troupe/runtime/plan/links.hpp"
#include "troupe/runtime/topology/members.hpp"
#include "troupe/runtime/topology/topology.hpp"

#include <c10/core/Device.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// The facts about the data that a plan needs.
struct data_facts {
  std::int64_t samples{0};  ///< Number of training samples, N.
  /// Kind of the samples. Defaults to that of most data sets.
  models::sample_kind kind{models::sample_kind::images};
  bool sequences{false};                     ///< Whether each position of a sample has its own target.
  std::vector<std::int64_t> sample_shape{};  ///< Shape of a sample, if the kind of data set does not fix it.
  std::vector<std::string> class_names{};  ///< Names of the classes, if the kind of data set does not fix their number.
  std::shared_ptr<const data::sample_shards> shards{};  ///< Samples of each worker, for a split by class.
  std::optional<data::sparsity> sparsity{};             ///< Sparsity of sparse samples, if it was computed.
  std::int64_t evaluated{0};                            ///< Number of evaluated samples; 0 if unknown.
  bool evaluates_training{false};  ///< Whether training samples are evaluated, because there are no others.
  bool evaluates_held_out{false};  ///< Whether the evaluated samples were held out of the training samples.
  std::vector<std::vector<std::int64_t>> class_counts{};  ///< Samples per worker and class, for a split by class.

  data_facts(std::int64_t training_samples) : samples(training_samples) {}
  /// Returns the published facts about a data set whose files are not on this machine. Throws input_error if its size
  /// depends on the files.
  data_facts(const data::dataset_kind& kind, const topology::topology& file);
  std::int64_t classes() const { return static_cast<std::int64_t>(class_names.size()); }
  /// Collects the facts of loaded data, and draws the shards of `file`.
  data_facts(const data::dataset_pair& sets, const topology::topology& file);
};

/// Stage 1: what is trained on. Later stages add notes and warnings; stage 4 settles the options of the exchanges.
struct planned_data {
  topology::topology file;                          ///< Without replicas: see expand_replicas().
  std::map<std::string, std::vector<int>> cores{};  ///< By exchange: the cores near a shared memory; empty means any.
  std::vector<std::string> notes{};     ///< Consequences of the file on this machine that a user may not expect.
  std::vector<std::string> warnings{};  ///< Settings that are legal but probably not intended.
  const data::dataset_kind* data{nullptr};
  data_facts facts{0};
  const models::network_kind* model{nullptr};
  models::network_shape shape{};  ///< Shape of the samples, classes, and settings of the model.
  data::normalisation scale{};    ///< Normalisation in effect.
  data::augmentation augment{};

  bool images() const { return facts.kind == models::sample_kind::images; }
};

/// A process and its ranks.
struct planned_node {
  std::string name{};            ///< Empty for the only node of a file without [[node]].
  endpoint address{}, listen{};  ///< Unused if there is only one node.
  std::uint32_t first_rank{0}, workers{1};
};

/// Stage 2: how the work is divided among steps, workers, nodes and devices.
struct planned_work : planned_data {
  data::sampling sampling{};  ///< Sampling of rank 0 with the largest batch; see data::of_worker().
  std::uint32_t workers{1};
  std::int64_t micro_batches{1};  ///< Number of parts into which a worker's batch is divided.
  std::uint64_t steps_per_epoch{0};
  std::uint64_t steps{0};              ///< Steps of the whole run.
  std::vector<c10::Device> devices{};  ///< By rank; empty means the CPU for all workers.
  /// In the order of the file, never empty; the first node has the coordinator, evaluator and recorder.
  std::vector<planned_node> nodes = std::vector<planned_node>(1);

  std::uint32_t node_of(std::uint32_t id) const;            ///< Index in `nodes` of the node of a worker or server.
  bool draws_from_queue() const { return sampling.queue; }  ///< Whether the workers share a budget of steps.
};

/// Stage 3: the model, its layout and its loss.
struct planned_model : planned_work {
  models::loss_function loss{};
  models::flat_layout layout{};
  std::vector<models::tied_name> tied{};  ///< Additional names of parameters of the layout.
  /// State dict entries outside the layout: see models/storage/constants.hpp.
  models::network::named_tensors constants{};
  std::vector<std::string> draws_elsewhere{};  ///< See models::network.
};

/// An exchange of the loop, or the exchange of synchronised batch norms, which happens during `gradient`.
struct planned_exchange {
  std::uint32_t place{0};  ///< Index among the exchanges.
  std::string name{};
  const exchange_kind* kind{nullptr};
  carriage carries{};
  setting_values settings{};                         ///< As given in the file.
  setting_values settings_by_index{};                ///< The same settings, with members named w0, w1 … by index.
  std::vector<topology::exchange_member> members{};  ///< In index order.
  exchange_nature nature{};
  std::shared_ptr<const common_facts> common{};  ///< What all members share: see exchange_kind::make_common.
  /// Layout of the exchanged tensor: the parameters, and the float buffers if they are mixed.
  models::flat_layout layout{};
  std::vector<range> buckets{};  ///< Parts of the tensor that are exchanged separately; empty means all at once.
  /// Wrappers around its members, from the inside out: with groups, a codec between the groups, and the groups; then
  /// the codec, the buckets, and an outer optimizer.
  std::vector<wrapper> wrappers{};
  /// Whether it exchanges statistics of batch norms, in the buckets that norm_exchange requires.
  bool of_norms{false};
  cadence due{};                  ///< The steps in which it happens.
  encoding_options codec{};       ///< How its messages are encoded.
  std::vector<int> cores{};       ///< Cores near a shared memory, where its workers stay; empty means any core.
  std::uint32_t first_server{0};  ///< Id of its first server; ids of servers follow those of workers.

  std::vector<std::uint32_t> ranks() const;  ///< Ranks of all its workers, ascending.
  std::vector<std::uint32_t> ids() const;  ///< ranks(), then the ids of its servers; its ports address these by index.
  std::vector<std::string> names() const;  ///< Names of the members.
  bool has_groups() const;                 ///< Whether some member has several workers.
  worker_groups groups() const;            ///< For each member, its workers as indices in ranks().
  const rules::mixing_schedule* mixing() const;  ///< Mixing matrices over the members, or null if the kind has none.
};

/// Stage 4: the exchanges.
struct planned_exchanges : planned_model {
  std::vector<planned_exchange> exchanges{};

  std::uint32_t servers() const;  ///< Number of servers of all exchanges.
  /// Returns the exchanges whose servers hold the result: one exchange whose shards form it, or shared memories that
  /// are replicas of it.
  std::vector<const planned_exchange*> stores() const;
  const planned_exchange* memory_of(std::uint32_t rank) const;  ///< The exchange that shares its parameters, or null.
  const planned_exchange* norms() const;                        ///< The exchange of synchronised batch norms, or null.
  bool replicas_agree() const;  ///< Whether all workers have equal parameters after each step.
  /// Returns the last step up to which all workers have equal parameters after each; cadence::never if to the end.
  std::uint64_t replicas_agree_until() const;
  bool buffers_agree() const;   ///< Whether all workers have equal float buffers, or none.
  bool deterministic() const;   ///< Whether no result depends on the order of arrival.
  bool promises_bits() const;   ///< Whether deterministic(), everything is computed and summed on CPUs in an order
                                ///< fixed by the file, all randomness is a function of the seed, and there is no
                                ///< time limit.
  bool workers_are_independent() const;  ///< Whether no worker ever waits for another, and servers hold the result.
};

/// Stage 5: the links between nodes or workers.
struct planned_wiring : planned_exchanges {
  std::vector<planned_link> links{};  ///< Emulated or real.
};

/// Stage 6: the updates of the parameters, and the schedule of everything else.
struct planned_training : planned_wiring {
  optimizer_options optimizer{};
  schedule when{};

  /// Returns whether this node keeps copies of checkpoints. Only the second node does, if checkpoint.copies is 2.
  bool keeps_copies(std::uint32_t node) const;

  /// Returns what carries the control messages between nodes, "caf" or "frames"; empty if there is only one node.
  std::string control_carrier() const;
};

}  // namespace troupe
