#include "troupe/runtime/plan/plan.hpp"

#include "troupe/algorithms/rules/growing_rounds.hpp"
#include "troupe/algorithms/training/optimizer_kinds.hpp"
#include "troupe/models/storage/constants.hpp"
#include "troupe/runtime/plan/batches.hpp"
#include "troupe/runtime/plan/derive.hpp"
#include "troupe/runtime/plan/devices.hpp"
#include "troupe/runtime/plan/memory_needs.hpp"
#include "troupe/runtime/plan/recipe.hpp"
#include "troupe/runtime/plan/refuse.hpp"
#include "troupe/runtime/plan/replicas.hpp"
#include "troupe/runtime/topology/paths.hpp"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <utility>

namespace troupe {

namespace {

std::int64_t micro_batches_of(const topology::topology& file) {
  topology::check_micro_batch(file, refusal_in(file));
  const auto batch = topology::worker_batch_size(file);
  return batch / file.data.micro_batch_size.value_or(batch);
}

data::sampling sampling_of(const planned_data& so_far) {
  const auto& file = so_far.file;
  const auto samples = so_far.facts.samples;
  const auto workers = file.workers.count;
  topology::check_global_batch(file, refusal_in(file));
  topology::check_batch_sizes(file, refusal_in(file));
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
                                .pad = file.data.remainder == "pad",
                                .shards = so_far.facts.shards,
                                .sizes = file.data.batch_sizes,
                                .queue = file.run.budget == "total"};
  const auto share = data::share_of(sampling);
  if (share == 0 && sampling.sizes.empty())
    refuse(file, "workers.count",
           equals("workers.count", workers) + " leaves a worker without samples: " + file.data.name + " has only " +
               std::to_string(samples) + "; use at most " + std::to_string(samples) + " workers");
  if (data::steps_per_epoch(sampling) == 0) {
    if (!sampling.sizes.empty())
      refuse(file, "data.batch_size",
             "data.batch_size gives no full step, because a step has " +
                 std::to_string(data::samples_per_step(sampling)) + " samples and there are only " +
                 std::to_string(samples) + "; use smaller numbers");
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
  const auto all_workers = static_cast<std::uint32_t>(file.workers.count);
  if (file.nodes.empty()) return {{.name = {}, .first_rank = 0, .workers = all_workers}};
  topology::check_node_workers(file, refusal_in(file));
  std::vector<planned_node> nodes;
  std::uint32_t placed = 0;
  for (const auto& given : file.nodes) {
    const auto workers = static_cast<std::uint32_t>(given.workers);
    const auto address = parse_endpoint(given.address).value();
    const auto listen = given.listen.empty() ? address : parse_endpoint(given.listen).value();
    nodes.push_back(
        {.name = given.name, .address = address, .listen = listen, .first_rank = placed, .workers = workers});
    placed += workers;
  }
  return nodes;
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

namespace {

planned_data plan_data(const topology::topology& given, const data_facts& facts, const std::vector<numa_node>& memory) {
  auto expanded = expand_replicas(given, memory);
  planned_data result{.file = std::move(expanded.file),
                      .cores = std::move(expanded.cores),
                      .notes = std::move(expanded.notes),
                      .facts = facts};
  const auto& file = result.file;
  result.data = data::find_dataset(file.data.name);
  result.model = models::find_network(file.model.name);
  result.shape =
      shape_of(file.model, result.data->sample_shape.empty() ? facts.sample_shape : result.data->sample_shape,
               result.data->classes > 0 ? result.data->classes : facts.classes());
  result.scale = scale_of(file, *result.data, result.shape, result.images());
  result.augment = augmentation_of(file);
  check_augmentation(result);
  return result;
}

planned_work plan_work(planned_data so_far, const device::census& machine) {
  planned_work work{std::move(so_far)};
  const auto& file = work.file;
  work.sampling = sampling_of(work);
  work.workers = static_cast<std::uint32_t>(file.workers.count);
  work.nodes = nodes_of(file);
  work.devices = deal_devices(work, work.nodes, machine);
  work.micro_batches = micro_batches_of(file);
  work.steps_per_epoch = static_cast<std::uint64_t>(data::steps_per_epoch(work.sampling));
  work.steps = steps_of(file, work.steps_per_epoch);
  return work;
}

planned_model plan_model(planned_work so_far, models::network& net) {
  planned_model model{std::move(so_far)};
  model.loss = loss_of(model.file, net, model.shape.classes);
  check_accuracy(model.file, model.loss);
  check_top_k(model);
  check_evaluation(model);
  check_last_batch(model);
  check_batch_range(model, net.accepts());
  model.layout = models::layout_of(net);
  model.tied = models::tied_names_of(net);
  model.constants = models::constants_of(net);
  for (auto& note : net.notes()) model.notes.push_back(std::move(note));
  model.draws_elsewhere = net.draws_elsewhere();
  if (!model.draws_elsewhere.empty()) model.notes.push_back(note_on_draws(model.draws_elsewhere));
  if (net.takes_any_loss() || model.data->sample_shape.empty() || !(model.loss == net.loss()))
    for (const auto& warning : try_out(model, model.loss, net)) model.warnings.push_back(warning);
  return model;
}

/// Makes the intervals of an exchange grow as the learning rate falls.
void grow_intervals(const planned_exchanges& so_far, planned_exchange& exchange) {
  const auto& given = so_far.file.exchanges[exchange.place];
  const auto path = topology::table_path("exchange", exchange.place) + ".growth";
  if (exchange.due.lead == 0)
    refuse(so_far.file, path,
           "growth needs the exchange after \"apply\"; move \"" + exchange.name +
               "\" behind it in workers.loop, or remove growth");
  if (so_far.steps / exchange.due.every > most_listed)
    refuse(so_far.file, path,
           "a run of " + std::to_string(so_far.steps) + " steps could have more than " + std::to_string(most_listed) +
               " exchanges; increase every");
  const auto optimizer = optimizer_of(so_far);
  auto stamps = rules::growing_rounds({exchange.due.every, *given.growth}, optimizer.lr, optimizer.schedule,
                                      exchange.due.first - exchange.due.every);
  std::erase_if(stamps, [&](auto stamp) { return stamp > exchange.due.last; });
  exchange.due.stamps = std::make_shared<const std::vector<std::uint64_t>>(std::move(stamps));
}

planned_exchanges plan_exchanges(planned_model so_far, const device::census& machine,
                                 const std::vector<std::int64_t>& norm_channels) {
  planned_exchanges result{std::move(so_far)};
  auto& file = result.file;
  for (std::uint32_t place = 0; place < file.exchanges.size(); ++place) {
    result.exchanges.push_back(plan_exchange(result, result.exchanges, place));
    file.exchanges[place].options = result.exchanges[place].settings;
  }
  for (auto& exchange : result.exchanges) {
    check_carrier(result, exchange, machine);
    if (file.exchanges[exchange.place].growth) grow_intervals(result, exchange);
  }
  check_budget(result);
  check_each_worker(result);
  if (file.model.sync_batch_norm) result.exchanges.push_back(plan_norms(result, norm_channels));
  return result;
}

schedule schedule_of(const planned_wiring& so_far) {
  const auto& file = so_far.file;
  schedule when{.steps = so_far.steps, .steps_per_epoch = so_far.steps_per_epoch};
  when.evaluate_every = steps_between(file.evaluate.every, so_far.steps_per_epoch);
  if (file.checkpoint.every) when.checkpoint_every = steps_between(*file.checkpoint.every, so_far.steps_per_epoch);
  if (so_far.workers > 1 && so_far.replicas_agree_until() > 0) {
    when.verify_every = static_cast<std::uint64_t>(file.run.verify_every);
    when.verify_until = so_far.replicas_agree_until();
  }
  return when;
}

planned_training plan_training(planned_wiring so_far, models::network& net) {
  planned_training training{std::move(so_far)};
  training.optimizer = optimizer_of(training);
  try {
    make_optimizer(training.optimizer);
  } catch (const std::exception& reason) {  // of a program or plug-in
    refuse(training.file, "optimizer.name",
           "optimizer.name = \"" + training.optimizer.name + "\" cannot be used: " + reason.what());
  }
  training.when = schedule_of(training);
  const auto has_own_code =
      net.takes_any_loss() || training.loss != net.loss() || !find_optimizer(training.optimizer.name)->skips_tensors;
  if (has_own_code && training.draws_elsewhere.empty()) {
    training.draws_elsewhere = draws_from_process(training, net);
    if (!training.draws_elsewhere.empty()) training.notes.push_back(note_on_draws(training.draws_elsewhere));
  }
  if (!net.takes_any_loss()) return training;  // otherwise, the code of the module is unknown
  // An L2 penalty is a function of all parameters and gives each of them a gradient.
  if (training.optimizer.l2_penalty != 0) return training;
  training.optimizer.tensors = tensors_of(training.layout);
  if (auto note = note_on_missing_gradients(training, net); !note.empty()) training.notes.push_back(std::move(note));
  return training;
}

std::vector<planned_actor> actors_of(const planned_wiring& so_far) {
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

plan make_plan(const topology::topology& file, const data_facts& facts, const device::census& machine,
               const std::vector<numa_node>& memory) {
  topology::check_values(file, refusal_in(file));
  auto work = plan_work(plan_data(file, facts, memory), machine);
  check_memory(work);
  const auto net = make_network_of(work);
  planned_wiring wiring{plan_exchanges(plan_model(std::move(work), *net), machine, net->norm_channels())};
  wiring.links = plan_links(wiring);
  plan result{plan_training(std::move(wiring), *net)};
  result.traffic = plan_traffic(result);
  result.faults = plan_faults(result);
  result.actors = actors_of(result);
  for (const auto& warning : warnings_of(result)) result.warnings.push_back(warning);
  return result;
}

}  // namespace troupe
