// What will run: a topology with everything derived from it that does not depend on time. `troupe check` prints it,
// `troupe graph` draws it, the launcher spawns it.
#pragma once

#include "troupe/actors/device/device.hpp"
#include "troupe/actors/exchange/group.hpp"
#include "troupe/actors/exchange/registry.hpp"
#include "troupe/actors/rules/schedule.hpp"
#include "troupe/data/dataset.hpp"
#include "troupe/data/sampler.hpp"
#include "troupe/data/sparsity.hpp"
#include "troupe/models/flat.hpp"
#include "troupe/models/network.hpp"
#include "troupe/models/samples.hpp"
#include "troupe/models/tied.hpp"
#include "troupe/runtime/plan/numa.hpp"
#include "troupe/runtime/plan/recipe.hpp"
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

enum class role : std::uint8_t { worker, compute, port, server, evaluator, coordinator, recorder };

struct planned_actor {
  std::string name;  ///< Unique: "worker 2", "compute 2", "exchange 2", "evaluator" …: what errors call it.
  role what{};
  std::uint32_t rank{0};  ///< Of worker, compute, port; of a server its id, which counts on from the workers.
  std::uint32_t node{0};  ///< Index in plan::nodes.
};

/// A process and the ranks that it runs.
struct planned_node {
  std::string name{};                      ///< Empty: the only one, of a file without [[node]].
  topology::endpoint address{}, listen{};  ///< Meaningless for the only one.
  std::uint32_t first_rank{0}, workers{1};
};

/// Tensor traffic of a step.
struct traffic {
  std::uint64_t edges{0};
  double messages{0}, bytes{0};  ///< Per step; the mean where an exchange is not due each step.
};

/// What a plan needs to know of the data.
struct data_facts {
  std::int64_t samples{0};  ///< N of the training set.
  /// What a sample is. Where nothing is known of the data, that of most data sets.
  models::sample_kind kind{models::sample_kind::images};
  bool sequences{false};                                  ///< Each position of a sample has a target of its own.
  std::vector<std::int64_t> sample_shape{};               ///< Where the kind of data set does not say.
  std::vector<std::string> class_names{};                 ///< Likewise, as many as there are classes.
  std::shared_ptr<const data::sample_shards> shards{};    ///< Of a split that goes by the samples' classes.
  std::optional<data::sparsity> sparsity{};               ///< Of sparse samples, where it was worked out.
  std::int64_t evaluated{0};                              ///< Samples that are evaluated; 0: not known.
  bool evaluates_training{false};                         ///< They are the training samples: there are no others.
  bool evaluates_held_out{false};                         ///< They were taken from them.
  std::vector<std::vector<std::int64_t>> class_counts{};  ///< Of `shards`: samples by worker, then class.

  data_facts(std::int64_t training_samples) : samples(training_samples) {}
  /// What is known of a data set whose files are not here, as published. Throws input_error where nothing is.
  data_facts(const data::dataset_kind& kind, const topology::topology& file);
  std::int64_t classes() const { return static_cast<std::int64_t>(class_names.size()); }
  /// Also draws the shards of `file`.
  data_facts(const data::dataset_pair& sets, const topology::topology& file);
};

/// One exchange of the loop, or that of the norms, which happens in the middle of `gradient`.
struct planned_exchange {
  std::string name;
  const exchange_kind* kind{nullptr};
  carriage carries{};
  setting_values settings{};                         ///< As the file gives them.
  setting_values settings_by_index{};                ///< The same, members called w0, w1 … by their indices.
  std::vector<topology::exchange_member> members{};  ///< In the order of their indices.
  exchange_nature nature{};
  models::flat_layout layout{};  ///< Of what is exchanged: the parameters, and the float buffers where they are mixed.
  std::vector<range> buckets{};  ///< Pieces of it that are exchanged by themselves; none: it is exchanged whole.
  bool of_norms{false};          ///< Of their statistics, in buckets as norm_exchange wants them.
  cadence due{};
  std::vector<int> cores{};           ///< Of a memory: near which it lies, and its workers stay; none: anywhere.
  std::uint32_t first_server{0};      ///< Id of its first server: all servers count on from the workers.
  std::vector<planned_edge> edges{};  ///< Between ids. Per exchange, which is each step only where due.every is 1.

  std::vector<std::uint32_t> ranks() const;              ///< Of all its workers, ascending.
  std::vector<std::uint32_t> ids() const;                ///< The same, then its servers: what its ports know by index.
  std::vector<std::string> names() const;                ///< Of the members.
  bool has_groups() const;                               ///< Members of several workers.
  worker_groups groups() const;                          ///< By member, its workers as indices in ranks().
  std::uint64_t bytes_held(std::uint32_t server) const;  ///< What server first_server + `server` hands to a worker.
  std::optional<rules::mixing_matrix> mixing() const;    ///< W, by member, where the kind has one.
};

struct plan {
  topology::topology file;
  const models::network_kind* model{nullptr};
  const data::dataset_kind* data{nullptr};
  models::network_shape shape;
  models::loss_kind loss{};
  models::flat_layout layout;
  std::vector<models::tied_name> tied{};       ///< Further names of parameters of the layout.
  models::network::named_tensors constants{};  ///< What its state dict has beside the layout: see models/constants.hpp.
  std::vector<std::string> draws_elsewhere{};  ///< See models::network.
  data_facts facts{0};
  data::normalisation scale;  ///< What inputs are really normalised by.
  data::augmentation augment{};
  optimizer_options optimizer{};
  data::sampling sampling;  ///< Of rank 0; the others differ in `rank` only.
  std::uint32_t workers{1};
  std::int64_t micro_batches{1};  ///< Parts of a worker's batch.
  std::uint64_t steps_per_epoch{0};
  std::uint64_t steps{0};           ///< Of the whole run.
  std::uint64_t evaluate_every{0};  ///< In steps; an evaluation always happens at the end.
  std::vector<planned_exchange> exchanges;
  std::vector<std::string> notes{};  ///< What the file comes to on this machine, where a person may not expect it.
  std::vector<planned_actor> actors;
  std::vector<c10::Device> devices{};  ///< By rank; empty: the CPU for all.
  /// In the file's order, never empty; the first has coordinator, evaluator, recorder.
  std::vector<planned_node> nodes = std::vector<planned_node>(1);
  double bytes_per_step() const;  ///< Tensor payload of all senders; the mean where an exchange is not due each step.
  double messages_per_step() const;
  std::uint32_t servers() const;                  ///< Of all exchanges.
  std::uint32_t node_of(std::uint32_t id) const;  ///< Index in `nodes` of a worker or server.
  /// The exchanges whose servers hold the result: one whose shares make it up, or memories that are replicas of it.
  std::vector<const planned_exchange*> stores() const;
  const planned_exchange* memory_of(std::uint32_t rank) const;  ///< Where its x lies, if it is shared.
  const planned_exchange* norms() const;  ///< The exchange of synchronised norms, if there is one.
  bool images() const { return facts.kind == models::sample_kind::images; }
  bool replicas_agree() const;           ///< All workers' parameters after a step are equal.
  bool buffers_agree() const;            ///< All workers' float buffers, or there are none.
  bool deterministic() const;            ///< No result depends on what arrives first.
  bool promises_bits() const;            ///< And all is computed and summed on CPUs, in an order that the file fixes,
                                         ///< and what is random is a function of the seed.
  bool workers_are_independent() const;  ///< No worker ever waits for another one, and servers hold the result.
  bool crosses(const planned_edge& edge) const { return node_of(edge.from) != node_of(edge.to); }
  traffic between_nodes() const;  ///< What crosses from one process to another.
};

/// Reads the data set a topology names. Throws input_error (missing folder, broken file: path, reason, mend).
data::dataset_pair load_data(const topology::topology& file);

/// Returns what a model is made for: samples like these, and what the file says of the model.
models::network_shape shape_of(const topology::model_settings& model, const std::vector<std::int64_t>& input,
                               std::int64_t classes);

/// Derives the plan; its file is as expand_replicas() makes it for a machine of such `memory`. Throws input_error where
/// the numbers do not work out (no step in an epoch, more workers than samples, a device that `machine` has not …),
/// naming the key to change.
plan make_plan(const topology::topology& file, const data_facts& facts, const device::census& machine = device::here(),
               const std::vector<numa_node>& memory = numa_nodes());

/// Derives exchange `index` of the plan's file; the exchanges before it are planned already. Throws input_error.
planned_exchange plan_exchange(const plan& so_far, std::size_t index);

/// Derives the exchange "batch_norm", which brings together the statistics of norms of so many channels; the others are
/// planned already. Throws input_error where workers do not go through their layers together.
planned_exchange plan_norms(const plan& so_far, const std::vector<std::int64_t>& channels);

/// "worker 3", "workers 0 to 2": what runs on a node.
std::string ranks_text(const planned_node& node);

/// Prints the plan for people: actors, placement, edges, bytes per step.
std::string describe(const plan& plan);

/// Prints the same as one JSON object, for programs.
std::string describe_json(const plan& plan);

/// Draws the wiring in Graphviz's DOT language; up to 64 actors in full, beyond that up to 20 nodes as one
/// box each, or all as one.
std::string to_dot(const plan& plan);

/// Renders DOT to SVG. Throws std::runtime_error.
std::string to_svg(const std::string& dot);

}  // namespace troupe
