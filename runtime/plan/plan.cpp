#include "troupe/runtime/plan/plan.hpp"

#include "troupe/models/storage/constants.hpp"
#include "troupe/runtime/plan/batches.hpp"
#include "troupe/runtime/plan/devices.hpp"
#include "troupe/runtime/plan/memory_needs.hpp"
#include "troupe/runtime/plan/parts.hpp"
#include "troupe/runtime/plan/refuse.hpp"
#include "troupe/runtime/plan/replicas.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace troupe {

namespace {

std::int64_t micro_batches_of(const topology::topology& file) {
  topology::check_micro_batch(file, refusal_in(file));
  const auto batch = topology::worker_batch_size(file);
  return batch / file.data.micro_batch_size.value_or(batch);
}

data::sampling sampling_of(const topology::topology& file, std::int64_t samples) {
  const auto workers = file.workers.count;
  topology::check_global_batch(file, refusal_in(file));
  const auto batch = topology::worker_batch_size(file);
  const auto& global = file.data.global_batch_size;
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

std::uint64_t steps_of(const topology::topology& file, std::uint64_t steps_per_epoch) {
  if (file.run.steps) return *file.run.steps;
  const auto epochs = file.run.epochs.value_or(1);
  // The steps of all workers together are counted in 64 bits.
  constexpr auto most_together = std::uint64_t{1} << 63;
  const auto most = std::min(most_steps, most_together / static_cast<std::uint64_t>(file.workers.count));
  if (epochs > most / steps_per_epoch)
    refuse(file, "run.epochs",
           "run.epochs = " + std::to_string(epochs) + " is too many; use at most " +
               std::to_string(most / steps_per_epoch));
  return epochs * steps_per_epoch;
}

std::vector<planned_node> nodes_of(const topology::topology& file) {
  const auto all = static_cast<std::uint32_t>(file.workers.count);
  if (file.nodes.empty()) return {{.name = {}, .first_rank = 0, .workers = all}};
  topology::check_node_workers(file, refusal_in(file));
  std::vector<planned_node> nodes;
  std::uint32_t placed = 0;
  for (const auto& given : file.nodes) {
    const auto workers = static_cast<std::uint32_t>(given.workers);
    const auto address = topology::parse_endpoint(given.address).value();
    const auto listen = given.listen.empty() ? address : topology::parse_endpoint(given.listen).value();
    nodes.push_back(
        {.name = given.name, .address = address, .listen = listen, .first_rank = placed, .workers = workers});
    placed += workers;
  }
  return nodes;
}

std::vector<planned_actor> actors_of(const plan& so_far) {
  std::vector<planned_actor> actors;
  for (std::uint32_t rank = 0; rank < so_far.workers; ++rank)
    actors.push_back({label_of_worker(rank), so_far.node_of(rank)});
  for (std::uint32_t rank = 0; rank < so_far.workers; ++rank)
    actors.push_back({label_of_compute(rank), so_far.node_of(rank)});
  for (std::uint32_t place = 0; place < so_far.exchanges.size(); ++place) {
    const auto& exchange = so_far.exchanges[place];
    if (exchange.nature.in_loop)
      for (const auto rank : exchange.ranks())
        actors.push_back({label_of_port(exchange.name, place, rank), so_far.node_of(rank)});
    for (std::uint32_t i = 0; i < exchange.nature.servers; ++i)
      actors.push_back({label_of_server(exchange.name, place, i)});
  }
  for (const auto what : {role::evaluator, role::coordinator, role::recorder}) actors.push_back({label_of(what)});
  return actors;
}

}  // namespace

data::split split_named(const topology::topology& file) {
  const auto& name = file.data.split;
  if (name == "strided") return data::split::strided;
  if (name == "contiguous") return data::split::contiguous;
  if (name == "all") return data::split::all;
  return data::split::given;  // "dirichlet" or "by_label"
}

std::uint64_t steps_between(const topology::interval& every, std::uint64_t steps_per_epoch) {
  const auto unit = every.in_epochs ? steps_per_epoch : 1;
  return every.count > most_steps / unit ? most_steps : every.count * unit;
}

plan make_plan(const topology::topology& given, const data_facts& facts, const device::census& machine,
               const std::vector<numa_node>& memory) {
  topology::check_values(given, refusal_in(given));
  const auto expanded = expand_replicas(given, memory);
  const auto& file = expanded.file;
  plan plan;
  plan.file = file;
  plan.notes = expanded.notes;
  plan.model = models::find_network(file.model.name);
  plan.data = data::find_dataset(file.data.name);
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
  plan.evaluate_every = steps_between(file.evaluate.every, plan.steps_per_epoch);
  if (file.checkpoint.every) plan.checkpoint_every = steps_between(*file.checkpoint.every, plan.steps_per_epoch);
  check_memory(plan);
  const auto net = network_of(plan);
  plan.loss = loss_of(file, *net, plan.shape.classes);
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
  const auto may_leave_out_parameters = net->takes_any_loss();  // its code is unknown
  for (std::size_t i = 0; i < file.exchanges.size(); ++i) {
    plan.exchanges.push_back(plan_exchange(plan, i));
    plan.file.exchanges[i].options = plan.exchanges[i].settings;
  }
  plan.optimizer = optimizer_of(plan);
  // An L2 penalty is a function of all parameters and gives each of them a gradient.
  if (may_leave_out_parameters && plan.optimizer.l2_penalty == 0) {
    plan.optimizer.tensors = tensors_of(plan.layout);
    if (auto note = note_on_missing_gradients(plan, *net); !note.empty()) plan.notes.push_back(std::move(note));
  }
  for (auto& exchange : plan.exchanges) {
    check_hosting(plan, exchange, machine);
    if (const auto near = expanded.cores.find(exchange.name); near != expanded.cores.end())
      exchange.cores = near->second;
  }
  check_budget(plan);
  check_each_worker(plan);
  if (file.model.sync_batch_norm) plan.exchanges.push_back(plan_norms(plan, net->norm_channels()));
  if (plan.workers > 1 && plan.replicas_agree()) plan.verify_every = static_cast<std::uint64_t>(file.run.verify_every);
  plan.links = plan_links(plan);
  plan_traffic(plan);
  plan.faults = plan_faults(plan);
  plan.actors = actors_of(plan);
  for (const auto& each : warnings_of(plan)) plan.warnings.push_back(each);
  return plan;
}

}  // namespace troupe
