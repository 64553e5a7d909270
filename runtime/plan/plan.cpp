#include "troupe/runtime/plan/plan.hpp"

#include "troupe/actors/exchange/buckets.hpp"
#include "troupe/actors/exchange/norm_statistics.hpp"
#include "troupe/actors/exchange/shared.hpp"
#include "troupe/data/hold_out.hpp"
#include "troupe/data/shards.hpp"
#include "troupe/models/constants.hpp"
#include "troupe/models/gradient_hooks.hpp"
#include "troupe/models/script.hpp"
#include "troupe/runtime/plan/batches.hpp"
#include "troupe/runtime/plan/devices.hpp"
#include "troupe/runtime/plan/refuse.hpp"
#include "troupe/runtime/plan/replicas.hpp"
#include "troupe/runtime/plan/warnings.hpp"
#include "troupe/runtime/support/units.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <tuple>

namespace troupe {

namespace {

/// The names of a registry, for messages.
template <class Kinds>
std::string names_of(const Kinds& kinds) {
  std::vector<std::string> names;
  for (const auto& kind : kinds) names.push_back(kind.name);
  return topology::listed(names);
}

/// The parser has already checked the names in a file; this check is for code that fills in the structs itself.
template <class Kind, class Kinds>
const Kind& found(const Kind* kind, const topology::topology& file, const std::string& key, const std::string& name,
                  const Kinds& kinds) {
  if (kind == nullptr) refuse(file, key, key + " = \"" + name + "\" is not known; expected " + names_of(kinds));
  return *kind;
}

std::string equals(const std::string& key, std::int64_t value) {
  return key + " = " + std::to_string(value);
}

std::int64_t batch_size_of_one(const topology::topology& file) {
  const auto& global = file.data.global_batch_size;
  if (!global) return file.data.batch_size;
  const auto workers = file.workers.count;
  if (*global % workers != 0) {
    const auto below = *global / workers * workers;
    refuse(file, "data.global_batch_size",
           equals("data.global_batch_size", *global) + " is not divisible by " + equals("workers.count", workers) +
               "; use " + (below > 0 ? std::to_string(below) + " or " : "") + std::to_string(below + workers));
  }
  return *global / workers;
}

data::split split_named(const topology::topology& file) {
  const auto& name = file.data.split;
  if (name == "strided") return data::split::strided;
  if (name == "contiguous") return data::split::contiguous;
  if (name == "all") return data::split::all;
  if (name == "dirichlet" || name == "by_label") return data::split::given;
  refuse(file, "data.split",
         "data.split = \"" + name + "\" is not known; expected strided, contiguous, all, dirichlet or by_label");
}

std::int64_t micro_batches_of(const topology::topology& file) {
  const auto batch = batch_size_of_one(file), micro = file.data.micro_batch_size.value_or(batch);
  if (micro < 1 || batch % micro != 0)
    refuse(file, "data.micro_batch_size",
           equals("data.micro_batch_size", micro) + " does not divide a worker's batch of " + std::to_string(batch) +
               "; use a divisor of it");
  return batch / micro;
}

data::sampling sampling_of(const topology::topology& file, std::int64_t samples) {
  const auto workers = file.workers.count;
  const auto batch = batch_size_of_one(file);
  const auto& global = file.data.global_batch_size;
  if (batch < 1)
    refuse(file, global ? "data.global_batch_size" : "data.batch_size",
           equals("data.batch_size", batch) + " is too small; use at least 1");
  const data::sampling sampling{.samples = samples,
                                .batch_size = batch,
                                .rank = 0,
                                .workers = workers,
                                .how = split_named(file),
                                .shuffle = file.data.shuffle,
                                .seed = file.run.seed,
                                .drop_last = file.data.drop_last,
                                .pad = file.data.remainder == "pad"};
  const auto share = data::share_of(sampling);
  if (share == 0)
    refuse(file, "workers.count",
           equals("workers.count", workers) + " leaves a worker without samples: " + file.data.name + " has only " +
               std::to_string(samples) + "; use at most " + std::to_string(samples) + " workers");
  if (data::steps_per_epoch(sampling) == 0) {
    const auto key = global ? equals("data.global_batch_size", *global) : equals("data.batch_size", batch);
    refuse(file, global ? "data.global_batch_size" : "data.batch_size",
           key + " with " + equals("workers.count", workers) + " gives no full batch, because there are only " +
               std::to_string(samples) + " samples; use at most " + std::to_string(global ? share * workers : share));
  }
  return sampling;
}

/// Steps are kept far below 2^63, so that no sum of them overflows and every JSON reader can hold them.
constexpr std::uint64_t most_steps = std::uint64_t{1} << 53;

std::uint64_t steps_of(const topology::topology& file, std::uint64_t steps_per_epoch) {
  if (file.run.steps) {
    if (*file.run.steps > most_steps)
      refuse(
          file, "run.steps",
          "run.steps = " + std::to_string(*file.run.steps) + " is too many; use at most " + std::to_string(most_steps));
    return *file.run.steps;
  }
  const auto epochs = file.run.epochs.value_or(1);
  if (epochs > most_steps / steps_per_epoch)
    refuse(file, "run.epochs",
           "run.epochs = " + std::to_string(epochs) + " is too many; use at most " +
               std::to_string(most_steps / steps_per_epoch));
  return epochs * steps_per_epoch;
}

std::uint64_t steps_between(const topology::interval& every, std::uint64_t steps_per_epoch) {
  const auto unit = every.in_epochs ? steps_per_epoch : 1;
  return every.count > most_steps / unit ? most_steps : every.count * unit;
}

std::uint64_t evaluate_every_of(const topology::topology& file, std::uint64_t steps_per_epoch) {
  const auto& every = file.evaluate.every;
  if (every.count == 0) refuse(file, "evaluate.every", "evaluate.every = 0 is not an interval; use at least 1");
  return steps_between(every, steps_per_epoch);
}

models::loss_kind loss_of(const topology::topology& file, const models::network& net) {
  const auto& name = file.model.loss;
  using models::loss_kind;
  const auto own = net.loss();
  if (name == "auto" || name == models::name_of(own)) return own;
  if (net.takes_any_loss())
    for (const auto kind : models::loss_kinds)
      if (name == models::name_of(kind)) return kind;
  const auto of_classes = own == loss_kind::nll || own == loss_kind::cross_entropy;
  if (name == "cross_entropy" && of_classes) return loss_kind::cross_entropy;
  if (name == "nll" && of_classes)
    refuse(file, "model.loss",
           "model.loss = \"nll\" requires log-probabilities, but " + file.model.name +
               " returns scores; use \"cross_entropy\"");
  refuse(file, "model.loss",
         "model.loss = \"" + name + "\" does not fit the output of " + file.model.name + "; use \"" +
             models::name_of(own) + "\"");
}

/// Refuses what requires an accuracy where there is none.
void check_accuracy(const topology::topology& file, models::loss_kind loss) {
  if (loss != models::loss_kind::mse) return;
  const auto why = " requires an accuracy, but " + file.model.name + " is trained as a regression and has none; ";
  if (file.evaluate.target_accuracy)
    refuse(file, "evaluate.target_accuracy",
           "evaluate.target_accuracy" + why + "remove the key, or use evaluate.patience, which then follows the loss");
  if (file.evaluate.each_worker)
    refuse(file, "evaluate.each_worker", "evaluate.each_worker = true" + why + "remove the key");
}

data::normalisation scale_of(const topology::topology& file, const data::dataset_kind& kind,
                             const models::network_shape& shape, bool images) {
  if (!file.data.normalize) return {};
  const auto& mean = file.data.mean;
  const auto& std = file.data.std;
  if (mean.empty() && std.empty()) {
    auto of_preset = scale_of_preset(file, images ? shape.input.front() : 0);
    return of_preset.mean.empty() ? kind.published : of_preset;
  }
  if (mean.empty() || std.empty())
    refuse(file, mean.empty() ? "data.std" : "data.mean",
           std::string(mean.empty() ? "data.mean" : "data.std") +
               " is missing; data.mean and data.std must be given together");
  if (!images)
    refuse(file, "data.mean",
           "data.mean and data.std apply only to images, and the samples of " + kind.name +
               " are not normalised; remove both keys");
  const auto channels = static_cast<std::size_t>(shape.input.front());
  for (const auto& [key, values] : {std::pair{"data.mean", &mean}, std::pair{"data.std", &std}})
    if (values->size() != channels)
      refuse(file, key,
             std::string(key) + " has " + std::to_string(values->size()) + " numbers, but " + kind.name + " requires " +
                 std::to_string(channels) + ", one per channel");
  if (std::any_of(std.begin(), std.end(), [](double value) { return !(value > 0); }))
    refuse(file, "data.std",
           "data.std has a value that is not above 0, but inputs are divided by it; use positive values");
  return {mean, std};
}

void check_top_k(const plan& so_far) {
  const auto& k = so_far.file.evaluate.top_k;
  const auto scores = so_far.loss == models::loss_kind::cross_entropy || so_far.loss == models::loss_kind::nll;
  if (!k || (scores && *k < so_far.shape.classes)) return;
  refuse(so_far.file, "evaluate.top_k",
         equals("evaluate.top_k", *k) +
             (scores ? " counts every sample as correct, because there are only " +
                           std::to_string(so_far.shape.classes) + " scores; use a smaller value"
                     : " requires several scores per sample, but " + so_far.file.model.name + " returns one") +
             (scores ? ", or remove the key" : "; remove the key"));
}

void check_augmentation(const plan& so_far) {
  const auto& how = so_far.augment;
  if (!how.any()) return;
  const auto& file = so_far.file;
  if (!so_far.images())
    refuse(file, "augment",
           "[augment] applies only to 8-bit images, and the samples of " + so_far.data->name +
               " are not images; remove it");
  const auto channels = so_far.shape.input.front();
  const auto colours = how.brightness > 0 || how.contrast > 0 || how.saturation > 0 || how.hue > 0;
  if (colours && channels != 1 && channels != 3)
    refuse(file, "augment",
           "augment.brightness, contrast, saturation and hue require images with 1 or 3 channels, but those of " +
               so_far.data->name + " have " + std::to_string(channels) + "; remove these keys");
}

std::unique_ptr<models::network> network_of(const topology::topology& file, const models::network_kind& kind,
                                            const models::network_shape& shape) try {
  return models::make_network(kind, shape, file.run.seed);
} catch (const models::script_error& reason) {
  throw input_error(reason.what());
} catch (const std::invalid_argument& reason) {
  refuse(file, "model.name",
         "model.name = \"" + kind.name + "\" does not fit data.name = \"" + file.data.name + "\": " + reason.what());
}

/// "1×28×28".
std::string sizes_text(at::IntArrayRef sizes) {
  std::string text;
  for (const auto size : sizes) text += (text.empty() ? "" : "×") + std::to_string(size);
  return text;
}

/// What forward() is to return for `count` samples under a loss.
std::vector<std::int64_t> output_sizes(const plan& so_far, std::int64_t count) {
  auto sizes = models::made_up_targets(so_far.facts.sequences, so_far.shape, count).sizes().vec();
  if (so_far.loss == models::loss_kind::cross_entropy || so_far.loss == models::loss_kind::nll)
    sizes.push_back(so_far.shape.classes);
  return sizes;
}

/// Runs a model on generated samples like those of the run, before anything starts. Returns warnings about its output.
/// Throws input_error if the model does not take the samples, or if the loss cannot use its output.
std::vector<std::string> try_out(const plan& so_far, models::network& net) {
  const auto& file = so_far.file;
  const auto about = "model.name = \"" + file.model.name + "\" does not fit data.name = \"" + file.data.name + "\": ";
  constexpr std::int64_t samples = 2;  // one might hide which dimension counts them
  at::Tensor output;
  try {
    const at::NoGradGuard unrecorded;
    at::Generator generator = at::detail::createCPUGenerator(1);
    net.train(false);
    output = net.forward(models::made_up_samples(so_far.facts.kind, so_far.shape, samples, generator));
  } catch (const std::exception& reason) {
    refuse(file, "model.name", about + models::reason_of(reason));
  }
  const auto expected = output_sizes(so_far, samples);
  if (output.sizes() == at::IntArrayRef{expected} && output.is_floating_point())
    return warnings_of_output(output, so_far.loss);
  refuse(file, "model.name",
         about + "for " + std::to_string(samples) + " samples of " + sizes_text(so_far.shape.input) + " it returns " +
             (output.is_floating_point() ? "" : "integers, ") + "[" + sizes_text(output.sizes()) + "], but the loss " +
             models::name_of(so_far.loss) + " requires [" + sizes_text(expected) +
             "]; change its last layer, or model.loss");
}

/// What a person may not expect of a module's own random draws.
std::string note_on_draws(const std::vector<std::string>& operators) {
  std::string names;
  for (const auto& each : operators) names += (names.empty() ? "" : ", ") + each;
  return "the script draws random numbers (" + names +
         ") from LibTorch's global generator, which run.seed does not control; two runs differ";
}

const carriage& carriage_of(const topology::topology& file, const topology::exchange_settings& given,
                            const exchange_kind& kind) {
  if (given.sends.empty()) return kind.carries.front();
  std::vector<std::string> legal;
  for (const auto& one : kind.carries) {
    if (given.sends == name_of(one.sends)) return one;
    legal.push_back(name_of(one.sends));
  }
  refuse(file, "exchange." + given.name + ".sends",
         given.name + ".sends = \"" + given.sends + "\" is not supported by kind " + kind.name + "; expected " +
             topology::listed(topology::in_quotes(legal)));
}

/// Whether the loop makes its step before it comes to the word `name`.
bool stands_behind_the_step(const plan& so_far, const std::string& name) {
  for (const auto& word : so_far.file.workers.loop) {
    if (word == name) return false;
    const auto applies = [&](const auto& one) { return one.name == word && one.carries.makes_step(); };
    if (word == "apply" || std::any_of(so_far.exchanges.begin(), so_far.exchanges.end(), applies)) return true;
  }
  return false;
}

/// The traffic of one bucket, or of the whole, by index.
std::vector<planned_edge> edges_by_index(const planned_exchange& exchange, const models::flat_layout& layout) {
  const auto count = static_cast<std::uint32_t>(exchange.members.size());
  auto edges = exchange.kind->edges(count, layout, exchange.settings_by_index);
  if (!exchange.has_groups()) return edges;
  return group_edges(exchange.groups(), edges, static_cast<std::uint64_t>(layout.parameter_end) * sizeof(float));
}

/// The traffic between workers and servers.
std::vector<planned_edge> edges_of(const planned_exchange& exchange) {
  std::vector<models::flat_layout> wholes;
  for (const auto& bucket : exchange.buckets) wholes.push_back(layout_of_bucket(exchange.layout, bucket));
  if (wholes.empty()) wholes.push_back(exchange.layout);
  const auto ids = exchange.ids();
  std::map<std::pair<std::uint32_t, std::uint32_t>, planned_edge> sums;
  for (const auto& whole : wholes) {
    for (const auto& edge : edges_by_index(exchange, whole)) {
      const auto from = ids.at(edge.from), to = ids.at(edge.to);
      auto& sum = sums.try_emplace({from, to}, planned_edge{from, to, 0, 0}).first->second;
      sum.messages += edge.messages;
      sum.bytes += edge.bytes;
      sum.used = edge.used;
    }
  }
  std::vector<planned_edge> edges;
  for (const auto& [ends, edge] : sums) edges.push_back(edge);
  return edges;
}

/// Cuts a gradient that travels in buckets in the order in which gradients come.
std::vector<range> planned_buckets(const plan& so_far, const planned_exchange& exchange) {
  if (!sends_buckets(exchange.settings)) return {};
  const auto net = models::make_network(*so_far.model, so_far.shape, so_far.file.run.seed);
  const auto& facts = so_far.facts;
  const auto order = models::gradient_order(*net, so_far.shape, so_far.loss, facts.kind, facts.sequences);
  return buckets_of(exchange.settings, exchange.layout, order);
}

/// Where a data set comes from.
data::data_source source_of(const topology::topology& file, const std::filesystem::path& folder) {
  data::data_source from{folder};
  const auto& given = file.data;
  from.file = given.file;
  from.test_file = given.test_file;
  from.mapped = given.mapped.value_or(from.mapped);
  from.rows = given.rows.value_or(from.rows);
  from.columns = given.columns.value_or(from.columns);
  from.nonzeros = given.nonzeros.value_or(from.nonzeros);
  from.skew = given.skew.value_or(from.skew);
  from.sequence_length = given.sequence_length.value_or(from.sequence_length);
  from.random_windows = given.random_windows.value_or(from.random_windows);
  from.image_size = given.image_size;
  from.seed = file.run.seed;
  return from;
}

models::sample_kind kind_of(const data::dataset& set) {
  using models::sample_kind;
  if (set.rows) return sample_kind::sparse;
  if (set.files || set.inputs.scalar_type() == at::kByte) return sample_kind::images;
  return set.inputs.scalar_type() == at::kLong ? sample_kind::characters : sample_kind::numbers;
}

/// Which samples each worker has, where the split goes by their classes; else null.
std::shared_ptr<const data::sample_shards> shards_of(const data::dataset& set, const topology::topology& file) {
  const auto& split = file.data.split;
  const auto workers = file.workers.count;
  if (workers < 1 || split_named(file) != data::split::given) return nullptr;
  if (set.targets.scalar_type() != at::kLong || set.targets.dim() != 1)
    refuse(file, "data.split",
           "data.split = \"" + split + "\" distributes samples by class, but those of " + file.data.name +
               (set.targets.dim() > 1 ? " have a target for each position" : " have numeric targets") +
               "; use \"strided\" or \"contiguous\"");
  return std::make_shared<data::sample_shards>(
      split == "dirichlet"
          ? data::dirichlet_shards(set.targets, workers, file.data.alpha.value_or(data::usual_alpha), file.run.seed)
          : data::shards_by_label(set.targets, workers));
}

/// Counts the samples of each class that each worker has.
std::vector<std::vector<std::int64_t>> count_classes(const data::sample_shards& shards, const at::Tensor& targets) {
  const auto* target = targets.const_data_ptr<std::int64_t>();
  const auto classes = targets.numel() > 0 ? targets.max().item<std::int64_t>() + 1 : 0;
  std::vector<std::vector<std::int64_t>> counts;
  for (const auto& share : shards) {
    counts.emplace_back(static_cast<std::size_t>(classes));
    for (const auto sample : share) ++counts.back()[static_cast<std::size_t>(target[sample])];
  }
  return counts;
}

/// Throws input_error where workers cannot share a memory.
void check_memory(const plan& so_far, const planned_exchange& exchange) {
  if (!exchange.nature.memory) return;
  const auto& file = so_far.file;
  const auto ranks = exchange.ranks();
  for (const auto& node : so_far.nodes)
    if (!node.name.empty() && !topology::is_loopback(node.address))
      refuse(file, "exchange." + exchange.name,
             exchange.name + ": workers on different hosts cannot share memory, but node " + node.name + " is at " +
                 topology::print_endpoint(node.address) +
                 "; use loopback addresses, or another kind of exchange between hosts");
  const auto& first = so_far.devices.at(ranks.front());
  for (const auto rank : ranks) {
    const auto& where = so_far.devices.at(rank);
    if (where != first)
      refuse(file, "exchange." + exchange.name,
             exchange.name + ": workers " + std::to_string(ranks.front()) + " and " + std::to_string(rank) +
                 " share memory, but compute on " + first.str() + " and " + where.str() + "; use one device for both");
    if (where.is_cpu()) continue;
    if (*exchange.nature.memory != memory_writes::plain || local_steps_of(exchange.settings) > 1)
      refuse(file, "exchange." + exchange.name,
             exchange.name + ": lock, atomic and local_steps require memory on the host, but its workers compute on " +
                 where.str() + "; use the cpu, or remove these keys");
    if (so_far.exchanges.size() > 1)
      refuse(file, "exchange." + exchange.name,
             exchange.name + ": shared memory on a GPU cannot be combined with other exchanges yet; use the cpu");
    if (so_far.nodes.size() > 1)
      refuse(file, "exchange." + exchange.name,
             exchange.name + ": processes cannot share GPU memory yet; use one node, or the cpu");
  }
}

/// What the exchange of synchronised norms is called.
constexpr const char* name_of_norms = "batch_norm";

topology::endpoint endpoint_of(const topology::topology& file, const std::string& key, const std::string& text) {
  if (const auto where = topology::parse_endpoint(text)) return *where;
  refuse(file, key, key + " = \"" + text + "\" is not of the form host:port; expected for example \"127.0.0.1:4700\"");
}

std::vector<planned_node> nodes_of(const topology::topology& file) {
  const auto all = static_cast<std::uint32_t>(file.workers.count);
  if (file.nodes.empty()) return {{.name = {}, .first_rank = 0, .workers = all}};
  std::vector<planned_node> nodes;
  std::uint32_t placed = 0;
  for (const auto& given : file.nodes) {
    const auto key = "node." + given.name;
    if (given.workers < 1 || given.workers > all - placed)
      refuse(file, key + ".workers",
             equals(key + ".workers", given.workers) + " does not fit " + equals("workers.count", all) +
                 ", which must be the sum over the nodes");
    const auto workers = static_cast<std::uint32_t>(given.workers);
    const auto address = endpoint_of(file, key + ".address", given.address);
    const auto listen = given.listen.empty() ? address : endpoint_of(file, key + ".listen", given.listen);
    nodes.push_back(
        {.name = given.name, .address = address, .listen = listen, .first_rank = placed, .workers = workers});
    placed += workers;
  }
  if (placed < all)
    refuse(file, "workers.count",
           equals("workers.count", all) + ", but the nodes have " + std::to_string(placed) + " workers in total");
  return nodes;
}

std::vector<planned_actor> actors_of(const plan& so_far) {
  std::vector<planned_actor> actors;
  const auto of_each_rank = [&](const std::string& name, role what) {
    for (std::uint32_t rank = 0; rank < so_far.workers; ++rank)
      actors.push_back({name + " " + std::to_string(rank), what, rank, so_far.node_of(rank)});
  };
  of_each_rank("worker", role::worker);
  of_each_rank("compute", role::compute);
  for (const auto& exchange : so_far.exchanges) {
    if (!exchange.nature.memory)
      for (const auto rank : exchange.ranks())
        actors.push_back({exchange.name + " " + std::to_string(rank), role::port, rank, so_far.node_of(rank)});
    for (std::uint32_t i = 0; i < exchange.nature.servers; ++i)
      actors.push_back({exchange.name + " server " + std::to_string(i), role::server, exchange.first_server + i, 0});
  }
  actors.push_back({"evaluator", role::evaluator});
  actors.push_back({"coordinator", role::coordinator});
  actors.push_back({"recorder", role::recorder});
  return actors;
}

/// How often an edge is used per step, on average.
double uses_per_step(const planned_exchange& exchange, const planned_edge& edge) {
  return edge.used / static_cast<double>(exchange.due.every);
}

template <class Member>
double sum_over_edges(const plan& plan, Member member) {
  double sum = 0;
  for (const auto& exchange : plan.exchanges)
    for (const auto& edge : exchange.edges) sum += uses_per_step(exchange, edge) * static_cast<double>(edge.*member);
  return sum;
}

}  // namespace

std::vector<std::uint32_t> planned_exchange::ranks() const {
  std::vector<std::uint32_t> all;
  for (const auto& one : members) all.insert(all.end(), one.ranks.begin(), one.ranks.end());
  std::sort(all.begin(), all.end());
  return all;
}

std::vector<std::uint32_t> planned_exchange::ids() const {
  auto all = ranks();
  for (std::uint32_t i = 0; i < nature.servers; ++i) all.push_back(first_server + i);
  return all;
}

std::vector<std::string> planned_exchange::names() const {
  std::vector<std::string> result;
  for (const auto& one : members) result.push_back(one.name);
  return result;
}

bool planned_exchange::has_groups() const {
  return std::any_of(members.begin(), members.end(), [](const auto& one) { return one.ranks.size() > 1; });
}

worker_groups planned_exchange::groups() const {
  const auto all = ranks();
  worker_groups result;
  for (const auto& one : members) {
    auto& group = result.emplace_back();
    for (const auto rank : one.ranks)
      group.push_back(static_cast<std::uint32_t>(std::lower_bound(all.begin(), all.end(), rank) - all.begin()));
  }
  return result;
}

std::uint64_t planned_exchange::bytes_held(std::uint32_t server) const {
  if (nature.memory) return static_cast<std::uint64_t>(layout.total) * sizeof(float);
  std::uint64_t most = 0;
  for (const auto& edge : edges)
    if (edge.from == first_server + server) most = std::max(most, edge.bytes);
  return most;
}

std::optional<rules::mixing_matrix> planned_exchange::mixing() const {
  if (!kind->mixing) return std::nullopt;
  return kind->mixing(names(), settings);
}

double plan::bytes_per_step() const {
  return sum_over_edges(*this, &planned_edge::bytes);
}

double plan::messages_per_step() const {
  return sum_over_edges(*this, &planned_edge::messages);
}

std::uint32_t plan::servers() const {
  std::uint32_t sum = 0;
  for (const auto& exchange : exchanges) sum += exchange.nature.servers;
  return sum;
}

std::vector<const planned_exchange*> plan::stores() const {
  std::vector<const planned_exchange*> memories;
  for (const auto& one : exchanges)
    if (one.nature.memory) memories.push_back(&one);
  if (!memories.empty()) return memories;
  const auto holds = [&](const auto& one) { return one.nature.servers > 0 && one.ranks().size() == workers; };
  const auto found = std::find_if(exchanges.begin(), exchanges.end(), holds);
  if (found == exchanges.end()) return {};
  return {&*found};
}

const planned_exchange* plan::memory_of(std::uint32_t rank) const {
  const auto found = std::find_if(exchanges.begin(), exchanges.end(), [&](const auto& one) {
    if (!one.nature.memory) return false;
    const auto ranks = one.ranks();
    return std::binary_search(ranks.begin(), ranks.end(), rank);
  });
  return found == exchanges.end() ? nullptr : &*found;
}

const planned_exchange* plan::norms() const {
  const auto found = std::find_if(exchanges.begin(), exchanges.end(), [](const auto& one) { return one.of_norms; });
  return found == exchanges.end() ? nullptr : &*found;
}

bool plan::replicas_agree() const {
  // A step on a GPU rounds otherwise than one on the CPU.
  const auto alike = [&](const auto& device) { return device.type() == devices.front().type(); };
  if (!std::all_of(devices.begin(), devices.end(), alike)) return false;
  return !exchanges.empty() && std::all_of(exchanges.begin(), exchanges.end(), [&](const auto& one) {
    return one.carries.sends == slot::gradient && one.nature.same_for_all && one.due.every == 1 &&
           one.ranks().size() == workers;
  });
}

bool plan::buffers_agree() const {
  return layout.total == layout.parameter_end || norms() != nullptr || memory_of(0) != nullptr;
}

bool plan::deterministic() const {
  return std::all_of(exchanges.begin(), exchanges.end(), [](const auto& one) { return one.nature.deterministic; });
}

bool plan::promises_bits() const {
  return deterministic() && draws_elsewhere.empty() &&
         std::none_of(exchanges.begin(), exchanges.end(), [](const auto& one) { return one.nature.on_devices; }) &&
         std::all_of(devices.begin(), devices.end(), [](const auto& one) { return one.is_cpu(); });
}

bool plan::workers_are_independent() const {
  return !stores().empty() && std::all_of(exchanges.begin(), exchanges.end(), [](const auto& one) {
    return !one.nature.deterministic && one.nature.servers > 0 && !one.has_groups();
  });
}

std::uint32_t plan::node_of(std::uint32_t id) const {
  if (id >= workers) return 0;  // servers stand beside the coordinator
  const auto after = std::upper_bound(nodes.begin(), nodes.end(), id,
                                      [](std::uint32_t r, const planned_node& node) { return r < node.first_rank; });
  return static_cast<std::uint32_t>(after - nodes.begin()) - 1;
}

traffic plan::between_nodes() const {
  traffic sum;
  for (const auto& exchange : exchanges)
    for (const auto& edge : exchange.edges) {
      if (!crosses(edge) || edge.messages == 0) continue;
      ++sum.edges;
      sum.messages += uses_per_step(exchange, edge) * static_cast<double>(edge.messages);
      sum.bytes += uses_per_step(exchange, edge) * static_cast<double>(edge.bytes);
    }
  return sum;
}

data::dataset_pair load_data(const topology::topology& file) try {
  const auto& kind =
      found(data::find_dataset(file.data.name), file, "data.name", file.data.name, data::dataset_kinds());
  const auto folder = kind.folder.empty() ? std::filesystem::path{} : data::data_folder(file.data.dir) / kind.folder;
  auto sets = kind.load(source_of(file, folder));
  for (const auto& set : {sets.train, sets.test}) {
    if (kind.sample_shape.empty()) continue;
    const auto shape = set->inputs.sizes().slice(1);
    if (shape.equals(kind.sample_shape)) continue;
    throw input_error(folder.string() + ": its samples are " + sizes_text(shape) + ", but those of " + kind.name +
                      " are " + sizes_text(kind.sample_shape) + "; the folder holds another data set");
  }
  if (file.data.validation) data::hold_out(sets, *file.data.validation, file.run.seed);
  return sets;
} catch (const data::data_error& reason) {
  throw input_error(reason.what());
}

planned_exchange plan_exchange(const plan& so_far, std::size_t index) {
  const auto& file = so_far.file;
  const auto& given = file.exchanges[index];
  const auto& kind = found(find_exchange(given.kind), file, given.name + ".kind", given.kind, exchange_kinds());
  const auto path = "exchange." + given.name;
  if (given.every.count == 0)
    refuse(file, path + ".every", given.name + ".every = 0 is not an interval; use at least 1");
  planned_exchange made{
      .name = given.name, .kind = &kind, .carries = carriage_of(file, given, kind), .settings = given.options};
  try {
    made.members = topology::members_of(file, index);
  } catch (const topology::member_error& reason) {
    refuse(file, path + ".members", given.name + ".members: " + reason.what());
  }
  const auto names = made.names();
  if (kind.check)
    if (const auto wrong = kind.check(names, given.options))
      refuse(file, path + "." + wrong->key, given.name + "." + wrong->key + ": " + wrong->text);
  made.settings = settled(kind, made.carries.sends, static_cast<std::uint32_t>(names.size()), given.options);
  made.settings_by_index = kind.by_index ? kind.by_index(names, made.settings) : made.settings;
  made.nature = nature_of(kind, made.settings_by_index);
  if (made.nature.answers) made.carries.answers = *made.nature.answers;
  if (made.nature.memory && names.size() == 1) made.nature.deterministic = true;  // nobody else writes it
  if (made.carries.makes_step() &&
      (made.ranks().size() < so_far.workers || given.every != topology::interval{1, false}))
    refuse(
        file, path,
        given.name + " applies the update of its members; it must have all workers as members and run in every step");
  made.first_server = so_far.workers + so_far.servers();
  made.due = make_cadence(steps_between(given.every, so_far.steps_per_epoch),
                          stands_behind_the_step(so_far, given.name), made.nature.due_from_start);
  made.layout = mixes_buffers(made.settings) ? models::with_buffers(so_far.layout) : so_far.layout;
  made.buckets = planned_buckets(so_far, made);
  made.edges = edges_of(made);
  return made;
}

planned_exchange plan_norms(const plan& so_far, const std::vector<std::int64_t>& channels) {
  const auto& file = so_far.file;
  const std::string key = "model.sync_batch_norm", given = key + " = true";
  if (!so_far.file.model.script.empty())
    refuse(file, key, given + " is not supported for a script, which computes its batch norms itself; remove the key");
  if (channels.empty()) refuse(file, key, given + ", but " + so_far.model->name + " has no batch norm; remove the key");
  if (so_far.workers > 1 && !(so_far.replicas_agree() && so_far.deterministic()))
    refuse(
        file, key,
        given +
            " requires every worker to run forward and backward in lockstep: each exchange must send gradients, have "
            "all workers as members, run in every step, and be of a synchronous kind such as all_reduce; or "
            "remove the key");
  for (const auto& exchange : so_far.exchanges)
    if (exchange.name == name_of_norms)
      refuse(file, "exchange." + exchange.name,
             "the exchange name \"" + exchange.name + "\" is reserved for batch norms when " + given +
                 "; choose another name");
  std::vector<std::uint32_t> all;
  for (std::uint32_t rank = 0; rank < so_far.workers; ++rank) all.push_back(rank);
  if (const auto both = sharing_a_gpu(so_far, all))
    refuse(file, key,
           given + ": workers " + std::to_string(both->first) + " and " + std::to_string(both->second) + " share " +
               so_far.devices.at(both->first).str() +
               ", and LibTorch has only one backward thread per GPU in a process, so one worker would block it while "
               "waiting for the other; give each worker its own GPU, or remove the key");
  planned_exchange made{.name = name_of_norms, .kind = &norm_statistics_kind(), .of_norms = true};
  made.settings = made.settings_by_index = {{"route", std::string{"auto"}}};
  for (std::uint32_t rank = 0; rank < so_far.workers; ++rank)
    made.members.push_back({.name = "w" + std::to_string(rank), .ranks = {rank}});
  made.nature = nature_of(*made.kind, made.settings);
  made.first_server = so_far.workers + so_far.servers();
  auto [layout, buckets] = norm_buckets_of(channels);
  made.layout = std::move(layout);
  made.buckets = std::move(buckets);
  made.edges = edges_of(made);
  for (auto& edge : made.edges) {  // of a full batch
    edge.messages *= static_cast<std::uint64_t>(so_far.micro_batches);
    edge.bytes *= static_cast<std::uint64_t>(so_far.micro_batches);
  }
  return made;
}

data_facts::data_facts(const data::dataset_pair& sets, const topology::topology& file)
    : samples(sets.train->size()),
      kind(kind_of(*sets.train)),
      sequences(sets.train->targets.dim() > 1),
      sample_shape(sets.sample_shape),
      shards(shards_of(*sets.train, file)),
      evaluated(sets.test->size()),
      evaluates_training(sets.train == sets.test),
      evaluates_held_out(file.data.validation.has_value()) {
  const auto* of_set = data::find_dataset(file.data.name);
  if (of_set != nullptr && of_set->classes == 0) class_names = sets.train->classes;
  if (shards) class_counts = count_classes(*shards, sets.train->targets);
}

data_facts::data_facts(const data::dataset_kind& of_set, const topology::topology& file)
    : samples(of_set.training_samples),
      evaluated(of_set.test_samples),
      evaluates_held_out(file.data.validation.has_value()) {
  if (samples == 0)
    refuse(file, "data.name", "the size of data.name = \"" + of_set.name + "\" depends on its files; remove --no-data");
  if (!file.data.validation) return;
  try {
    evaluated = data::held_out_of(samples, *file.data.validation);
  } catch (const data::data_error& reason) {
    refuse(file, "data.validation", reason.what());
  }
  samples -= evaluated;
}

models::network_shape shape_of(const topology::model_settings& model, const std::vector<std::int64_t>& input,
                               std::int64_t classes) {
  models::network_shape shape{.input = input,
                              .classes = classes,
                              .layers = model.layers,
                              .width = model.width,
                              .heads = model.heads,
                              .dropout = model.dropout,
                              .script = model.script,
                              .padded_shortcuts = model.shortcut == "pad"};
  shape.rank = model.rank.value_or(shape.rank);
  if (model.initializer == "normal")
    shape.normal =
        models::normal_initializer{.deviation = model.initializer_std, .zero_biases = model.initializer_bias == "zero"};
  return shape;
}

plan make_plan(const topology::topology& given, const data_facts& facts, const device::census& machine,
               const std::vector<numa_node>& memory) {
  const auto expanded = expand_replicas(given, memory);
  const auto& file = expanded.file;
  if (file.workers.count < 1 || file.workers.count > std::numeric_limits<std::int32_t>::max())
    refuse(file, "workers.count", equals("workers.count", file.workers.count) + " is out of range; use at least 1");
  plan plan;
  plan.file = file;
  plan.notes = expanded.notes;
  plan.model =
      &found(models::find_network(file.model.name), file, "model.name", file.model.name, models::network_kinds());
  plan.data = &found(data::find_dataset(file.data.name), file, "data.name", file.data.name, data::dataset_kinds());
  plan.facts = facts;
  plan.shape = shape_of(file.model, plan.data->sample_shape.empty() ? facts.sample_shape : plan.data->sample_shape,
                        plan.data->classes > 0 ? plan.data->classes : facts.classes());
  plan.scale = scale_of(file, *plan.data, plan.shape, plan.images());
  plan.augment = augmentation_of(file);
  check_augmentation(plan);
  plan.sampling = sampling_of(file, facts.samples);
  plan.sampling.shards = facts.shards;
  plan.sampling.queue = file.run.budget == "total";
  plan.workers = static_cast<std::uint32_t>(file.workers.count);
  plan.nodes = nodes_of(file);
  plan.devices = deal_devices(plan, machine);
  plan.micro_batches = micro_batches_of(file);
  plan.steps_per_epoch = static_cast<std::uint64_t>(data::steps_per_epoch(plan.sampling));
  plan.steps = steps_of(file, plan.steps_per_epoch);
  plan.evaluate_every = evaluate_every_of(file, plan.steps_per_epoch);
  const auto net = network_of(file, *plan.model, plan.shape);
  plan.loss = loss_of(file, *net);
  check_accuracy(file, plan.loss);
  check_top_k(plan);
  check_evaluation(plan);
  check_last_batch(plan);
  plan.layout = models::layout_of(*net);
  plan.tied = models::tied_names_of(*net);
  plan.constants = models::constants_of(*net);
  plan.draws_elsewhere = net->draws_elsewhere();
  if (!plan.draws_elsewhere.empty()) plan.notes.push_back(note_on_draws(plan.draws_elsewhere));
  if (net->takes_any_loss() || plan.data->sample_shape.empty()) plan.warnings = try_out(plan, *net);
  for (std::size_t i = 0; i < file.exchanges.size(); ++i) {
    plan.exchanges.push_back(plan_exchange(plan, i));
    plan.file.exchanges[i].options = plan.exchanges[i].settings;
  }
  plan.optimizer = optimizer_of(plan);
  for (auto& exchange : plan.exchanges) {
    check_memory(plan, exchange);
    if (const auto near = expanded.cores.find(exchange.name); near != expanded.cores.end())
      exchange.cores = near->second;
  }
  check_budget(plan);
  check_each_worker(plan);
  if (file.model.sync_batch_norm) plan.exchanges.push_back(plan_norms(plan, net->norm_channels()));
  for (const auto& exchange : plan.exchanges)
    if (exchange.nature.on_devices)
      if (const auto why = refusal_of_collective(plan, exchange, machine))
        refuse(file, "exchange." + exchange.name + ".engine", exchange.name + ": " + *why);
  plan.actors = actors_of(plan);
  for (const auto& each : warnings_of(plan)) plan.warnings.push_back(each);
  return plan;
}

}  // namespace troupe
