#include "troupe/runtime/plan/plan.hpp"

#include "troupe/models/constants.hpp"
#include "troupe/runtime/plan/batches.hpp"
#include "troupe/runtime/plan/devices.hpp"
#include "troupe/runtime/plan/parts.hpp"
#include "troupe/runtime/plan/refuse.hpp"
#include "troupe/runtime/plan/replicas.hpp"
#include "troupe/runtime/plan/warnings.hpp"

#include <limits>

namespace troupe {

namespace {

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

std::uint64_t evaluate_every_of(const topology::topology& file, std::uint64_t steps_per_epoch) {
  const auto& every = file.evaluate.every;
  if (every.count == 0) refuse(file, "evaluate.every", "evaluate.every = 0 is not an interval; use at least 1");
  return steps_between(every, steps_per_epoch);
}

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

}  // namespace

data::split split_named(const topology::topology& file) {
  const auto& name = file.data.split;
  if (name == "strided") return data::split::strided;
  if (name == "contiguous") return data::split::contiguous;
  if (name == "all") return data::split::all;
  if (name == "dirichlet" || name == "by_label") return data::split::given;
  refuse(file, "data.split",
         "data.split = \"" + name + "\" is not known; expected strided, contiguous, all, dirichlet or by_label");
}

std::uint64_t steps_between(const topology::interval& every, std::uint64_t steps_per_epoch) {
  const auto unit = every.in_epochs ? steps_per_epoch : 1;
  return every.count > most_steps / unit ? most_steps : every.count * unit;
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
  if (file.checkpoint.every) plan.checkpoint_every = steps_between(*file.checkpoint.every, plan.steps_per_epoch);
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
  if (plan.workers > 1 && plan.replicas_agree()) plan.verify_every = static_cast<std::uint64_t>(file.run.verify_every);
  plan.actors = actors_of(plan);
  for (const auto& each : warnings_of(plan)) plan.warnings.push_back(each);
  return plan;
}

}  // namespace troupe
