// The plan of a run: a topology, and everything derived from it that does not depend on time. The launcher spawns it;
// tools/drawing/ prints and draws it.
#pragma once

#include "troupe/actors/wire/actor_id.hpp"
#include "troupe/algorithms/device/device.hpp"
#include "troupe/algorithms/exchange/around/group.hpp"
#include "troupe/algorithms/exchange/registry.hpp"
#include "troupe/algorithms/rules/schedule.hpp"
#include "troupe/data/sampling/sampler.hpp"
#include "troupe/data/sets/dataset.hpp"
#include "troupe/data/sets/sparsity.hpp"
#include "troupe/models/networks/network.hpp"
#include "troupe/models/networks/samples.hpp"
#include "troupe/models/storage/flat.hpp"
#include "troupe/models/storage/tied.hpp"
#include "troupe/runtime/plan/faults.hpp"
#include "troupe/runtime/plan/links.hpp"
#include "troupe/runtime/plan/recipe.hpp"
#include "troupe/runtime/support/numa.hpp"
#include "troupe/runtime/topology/endpoint.hpp"
#include "troupe/runtime/topology/members.hpp"
#include "troupe/runtime/topology/topology.hpp"

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// An actor of the run and its placement.
struct planned_actor {
  actor_label label;
  std::uint32_t node{0};  ///< Index in plan::nodes.
};

/// A process and its ranks.
struct planned_node {
  std::string name{};                      ///< Empty for the only node of a file without [[node]].
  topology::endpoint address{}, listen{};  ///< Unused if there is only one node.
  std::uint32_t first_rank{0}, workers{1};
};

/// Tensor traffic per step.
struct traffic {
  std::uint64_t edges{0};
  double messages{0}, bytes{0};  ///< Per step; the mean if an exchange is not due in every step.
};

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
  bool evaluates_training{false};  ///< Whether those are the training samples, because there are no others.
  bool evaluates_held_out{false};  ///< Whether those were held out of the training samples.
  std::vector<std::vector<std::int64_t>> class_counts{};  ///< Samples per worker and class, for a split by class.

  data_facts(std::int64_t training_samples) : samples(training_samples) {}
  /// Returns the published facts about a data set whose files are not on this machine. Throws input_error if its size
  /// depends on the files.
  data_facts(const data::dataset_kind& kind, const topology::topology& file);
  std::int64_t classes() const { return static_cast<std::int64_t>(class_names.size()); }
  /// Collects the facts of loaded data, and draws the shards of `file`.
  data_facts(const data::dataset_pair& sets, const topology::topology& file);
};

/// An exchange of the loop, or the exchange of synchronised batch norms, which happens during `gradient`.
struct planned_exchange {
  std::string name;
  const exchange_kind* kind{nullptr};
  carriage carries{};
  setting_values settings{};                         ///< As given in the file.
  setting_values settings_by_index{};                ///< The same settings, with members named w0, w1 … by index.
  std::vector<topology::exchange_member> members{};  ///< In index order.
  exchange_nature nature{};
  std::shared_ptr<const common_facts> common{};  ///< What all members share: see exchange_kind::make_common.
  /// Layout of the exchanged tensor: the parameters, and the float buffers if they are mixed.
  models::flat_layout layout{};
  std::vector<range> buckets{};  ///< Parts of it that are exchanged separately; empty means all at once.
  /// What was chosen for each bucket, or for the whole; empty if the kind chooses nothing.
  std::vector<choice> choices{};
  std::vector<std::string> assumed_links{};  ///< Descriptions of the links by which it was chosen.
  /// What is around its members, from the inside out.
  std::vector<wrapper> wrappers{};
  /// Whether it exchanges statistics of batch norms, in the buckets that norm_exchange requires.
  bool of_norms{false};
  cadence due{};                    ///< The steps in which it happens.
  encoding how{encoding::float32};  ///< Encoding of its messages.
  std::vector<int> cores{};         ///< Cores near a shared memory, where its workers stay; empty means any core.
  std::uint32_t first_server{0};    ///< Id of its first server; ids of servers count on from the workers.
  /// Edges between ids, with the traffic of one exchange; that is the traffic of one step only if due.every is 1.
  std::vector<planned_edge> edges{};
  /// For each index in ids(), the indices of the ports that it sends to or receives from, ascending; see peers_of().
  std::vector<std::vector<std::uint32_t>> peers{};

  std::vector<std::uint32_t> ranks() const;  ///< Ranks of all its workers, ascending.
  std::vector<std::uint32_t> ids() const;  ///< ranks(), then the ids of its servers; its ports address these by index.
  std::vector<std::string> names() const;  ///< Names of the members.
  bool has_groups() const;                 ///< Whether some member has several workers.
  worker_groups groups() const;            ///< For each member, its workers as indices in ranks().
  std::uint64_t bytes_held(std::uint32_t server) const;  ///< Bytes that this server sends to a worker.
  /// Returns the indices in ids() of all ports that the port of the worker or server with this index ever sends to or
  /// receives from, ascending and without itself.
  const std::vector<std::uint32_t>& peers_of(std::uint32_t index) const { return peers.at(index); }
  const rules::mixing_schedule* mixing() const;  ///< Mixing matrices over the members, or null if the kind has none.
};

/// A validated topology with everything derived from it.
struct plan {
  topology::topology file;
  const models::network_kind* model{nullptr};
  const data::dataset_kind* data{nullptr};
  models::network_shape shape;
  models::loss_kind loss{};
  models::flat_layout layout;
  std::vector<models::tied_name> tied{};  ///< Additional names of parameters of the layout.
  models::network::named_tensors
      constants{};  ///< State dict entries outside the layout: see models/storage/constants.hpp.
  std::vector<std::string> draws_elsewhere{};  ///< See models::network.
  data_facts facts{0};
  data::normalisation scale;  ///< Normalisation in effect.
  data::augmentation augment{};
  optimizer_options optimizer{};
  data::sampling sampling;  ///< Sampling of rank 0; other ranks differ only in `rank`.
  std::uint32_t workers{1};
  std::int64_t micro_batches{1};  ///< Number of parts into which a worker's batch is divided.
  std::uint64_t steps_per_epoch{0};
  std::uint64_t steps{0};             ///< Steps of the whole run.
  std::uint64_t evaluate_every{0};    ///< In steps; there is always an evaluation at the end.
  std::uint64_t checkpoint_every{0};  ///< Interval between checkpoints, in steps; 0 for none.
  std::uint64_t verify_every{0};      ///< Interval at which equal replicas are compared, in steps; 0 for never.
  std::vector<planned_exchange> exchanges;
  std::vector<std::string> notes{};     ///< Consequences of the file on this machine that a user may not expect.
  std::vector<planned_link> links{};    ///< Links of the network, emulated or real.
  std::vector<planned_fault> faults{};  ///< Faults of a simulation.
  std::vector<std::string> warnings{};  ///< Settings that are legal but probably not intended.
  std::vector<planned_actor> actors;
  std::vector<c10::Device> devices{};  ///< By rank; empty means the CPU for all workers.
  /// In the order of the file, never empty; the first node has the coordinator, evaluator and recorder.
  std::vector<planned_node> nodes = std::vector<planned_node>(1);
  double bytes_per_step() const;  ///< Tensor payload of all senders; the mean if an exchange is not due in every step.
  double messages_per_step() const;               ///< The number of tensor messages, averaged in the same way.
  std::uint32_t servers() const;                  ///< Number of servers of all exchanges.
  std::uint32_t node_of(std::uint32_t id) const;  ///< Index in `nodes` of the node of a worker or server.
  /// Returns the exchanges whose servers hold the result: one exchange whose shards form it, or shared memories that
  /// are replicas of it.
  std::vector<const planned_exchange*> stores() const;
  const planned_exchange* memory_of(std::uint32_t rank) const;  ///< The exchange that shares its parameters, or null.
  const planned_exchange* norms() const;                        ///< The exchange of synchronised batch norms, or null.
  bool images() const { return facts.kind == models::sample_kind::images; }
  bool replicas_agree() const;  ///< Whether all workers have equal parameters after each step.
  bool buffers_agree() const;   ///< Whether all workers have equal float buffers, or none.
  bool deterministic() const;   ///< Whether no result depends on the order of arrival.
  bool promises_bits() const;   ///< Whether, in addition, everything is computed and summed on CPUs, in an order
                                ///< fixed by the file, all randomness is a function of the seed, and there is no
                                ///< time limit.
  bool draws_from_queue() const { return sampling.queue; }  ///< Whether the workers share a budget of steps.
  bool workers_are_independent() const;  ///< Whether no worker ever waits for another, and servers hold the result.
  /// Returns whether this node keeps copies of checkpoints: the second one, if checkpoint.copies is 2.
  bool keeps_copies(std::uint32_t node) const;
  bool crosses(const planned_edge& edge) const { return node_of(edge.from) != node_of(edge.to); }
  traffic between_nodes() const;  ///< Traffic between processes.
};

/// Reads the data set that a topology names. Throws input_error, with path, reason and fix, for a missing folder or a
/// broken file.
data::dataset_pair load_data(const topology::topology& file);

/// Returns the shape with which a model is made: the shape of the samples, the classes, and the settings of the model.
models::network_shape shape_of(const topology::model_settings& model, const std::vector<std::int64_t>& input,
                               std::int64_t classes);

/// Derives the plan. Its file is the result of expand_replicas() for a machine with this `memory`. Throws input_error,
/// naming the key to change, if the numbers do not fit (no step in an epoch, more workers than samples, a device that
/// `machine` does not have …).
plan make_plan(const topology::topology& file, const data_facts& facts, const device::census& machine = device::here(),
               const std::vector<numa_node>& memory = numa_nodes());

/// Derives exchange `index` of the plan's file, without its traffic. The exchanges before it must be planned already.
/// Throws input_error.
planned_exchange plan_exchange(const plan& so_far, std::size_t index);

/// Chooses for each exchange what depends on the network (planned_exchange::choices), and derives `wrappers` and its
/// traffic: `edges` and `peers`. All exchanges and links must be planned already.
void plan_traffic(plan& so_far);

/// Derives the exchange "batch_norm", without its traffic, which combines the statistics of batch norms with these
/// numbers of channels. All other exchanges must be planned already. Throws input_error if the workers do not run their
/// layers in lockstep.
planned_exchange plan_norms(const plan& so_far, const std::vector<std::int64_t>& channels);

/// Describes the workers of a node, such as "worker 3" or "workers 0 to 2".
std::string ranks_text(const planned_node& node);

}  // namespace troupe
