// Describes a plan as JSON for programs. docs/outputs.md explains the keys.
#include "troupe/algorithms/exchange/around/codec.hpp"
#include "troupe/files/json.hpp"
#include "troupe/runtime/plan/batches.hpp"
#include "troupe/tools/drawing/describe.hpp"
#include "troupe/tools/drawing/drawing.hpp"

#include <cmath>
#include <variant>

namespace troupe {

namespace {

using json = files::json;

/// Maximum number of members whose mixing matrix is printed.
constexpr std::size_t matrix_in_json_max = 64;

json whole_if_it_is(double number) {
  return number == std::floor(number) ? json(rounded(number)) : json(number);
}

std::string kind_name_of(models::sample_kind kind) {
  switch (kind) {
    case models::sample_kind::images:
      return "images";
    case models::sample_kind::numbers:
      return "numbers";
    case models::sample_kind::characters:
      return "tokens";
    case models::sample_kind::sparse:
      return "sparse";
  }
  return {};
}

json json_of(const plan& plan, const planned_exchange& exchange) {
  json settings = json::object();
  for (const auto& [name, value] : exchange.settings)
    settings[name] = std::visit([](const auto& plain) { return json(plain); }, value);
  json members = json::array();
  for (const auto& member : exchange.members) members.push_back({{"name", member.name}, {"workers", member.ranks}});
  json servers = json::array();
  for (std::uint32_t i = 0; i < exchange.nature.servers; ++i)
    servers.push_back({{"id", exchange.first_server + i},
                       {"node", plan.node_of(exchange.first_server + i)},
                       {"bytes", plan.bytes_held(exchange, i)}});
  const auto& traffic = plan.traffic_of(exchange);
  json edges = json::array();
  for (const auto& edge : traffic.edges)
    edges.push_back({{"from", edge.from},
                     {"to", edge.to},
                     {"messages", edge.messages},
                     {"bytes", edge.bytes},
                     {"used", edge.used}});
  json choices = json::array();
  for (const auto& choice : traffic.choices) {
    if (choice.candidates.empty()) continue;
    json seconds = json::object();
    for (const auto& candidate : choice.candidates) seconds[candidate.value] = candidate.seconds;
    choices.push_back(
        {{"key", choice.key}, {"value", choice.candidates.front().value}, {"predicted_seconds", seconds}});
  }
  const auto* mixing = exchange.mixing() ? exchange.mixing()->constant() : nullptr;
  const auto rates = mixing ? rules::rates_of(*mixing) : std::nullopt;
  const bool shown = mixing && mixing->rows.size() <= matrix_in_json_max;
  const auto nature = codec_of(exchange.codec.how).nature();
  return {{"name", exchange.name},
          {"kind", exchange.kind->name},
          {"sends", name_of(exchange.carries.sends)},
          {"answers", name_of(exchange.carries.answers)},
          {"every", exchange.due.every},
          {"encoding", codec_of(exchange.codec.how).name()},
          {"ratio", nature.takes_ratio ? json(exchange.codec.ratio) : json()},
          {"rank", nature.takes_rank ? json(exchange.codec.rank) : json()},
          {"feedback", exchange.codec.feedback},
          {"members", members},
          {"servers", servers},
          {"settings", settings},
          {"choices", choices},
          {"assumed_links", traffic.assumed_links},
          {"mixing_matrix", shown ? json(dense(*mixing)) : json()},
          {"spectral_gap", rates ? json(rates->gap) : json()},
          {"contraction", rates ? json(rates->contraction) : json()},
          {"edges", edges}};
}

json links_of(const plan& plan) {
  json links = json::array();
  for (const auto& [given, ends] : plan.links) {
    const auto microseconds = [](const auto& delay) { return delay ? json(delay->count()) : json(); };
    links.push_back({{"at", given.at ? json(*given.at) : json()},
                     {"between", given.between},
                     {"bytes_per_second", given.bandwidth ? json(given.bandwidth->bytes_per_second) : json()},
                     {"latency_microseconds", microseconds(given.latency)},
                     {"jitter_microseconds", microseconds(given.jitter)},
                     {"loss", given.loss ? json(*given.loss) : json()},
                     {"real", given.real}});
  }
  return links;
}

json faults_of(const plan& plan) {
  json faults = json::array();
  for (const auto& fault : plan.faults) {
    const auto& given = fault.given;
    const auto microseconds = [](const auto& delay) { return delay ? json(delay->count()) : json(); };
    faults.push_back({{"kind", given.kind},
                      {"at_step", fault.at_step ? json(*fault.at_step) : json()},
                      {"at_microseconds", fault.at_step ? json() : json(fault.at_time.count())},
                      {"node", given.node.empty() ? json() : json(given.node)},
                      {"between", given.between},
                      {"lasts_microseconds", microseconds(given.lasts)},
                      {"latency_microseconds", microseconds(given.latency)}});
  }
  return faults;
}

/// Returns the batch size of all workers, or a list with that of each.
json batch_size_of(const plan& plan) {
  if (plan.sampling.sizes.empty()) return plan.sampling.batch_size;
  return plan.sampling.sizes;
}

json evaluated_of(const plan& plan) {
  const auto& facts = plan.facts;
  if (facts.evaluated == 0) return {};
  return {{"set", facts.evaluates_training   ? "training"
                  : facts.evaluates_held_out ? "held_out"
                                             : "test"},
          {"samples", facts.evaluated},
          {"shares", evaluation_of(plan).shares},
          {"drop_last", plan.file.evaluate.drop_last}};
}

json classes_of_a_worker(const plan& plan) {
  if (plan.facts.class_counts.empty()) return {};
  const auto [least, most] = classes_seen(plan);
  return {{"least", least}, {"most", most}, {"samples", plan.facts.class_counts}};
}

json sparsity_of(const plan& plan) {
  const auto& sparsity = plan.facts.sparsity;
  if (!sparsity) return {};
  return {{"omega", sparsity->omega},
          {"delta", sparsity->delta},
          {"rho", sparsity->rho},
          {"rho_is_exact", sparsity->rho_is_exact},
          {"mean_nonzeros", sparsity->mean_nonzeros}};
}

}  // namespace

std::string describe_json(const plan& plan) {
  json actors = json::array();
  for (const auto& actor : plan.actors) actors.push_back({{"name", actor.label.name}, {"node", actor.node}});
  json devices = json::array();
  for (const auto& device : plan.devices) devices.push_back(device.str());
  json nodes = json::array();
  for (const auto& node : plan.nodes) {
    json entry{{"name", node.name}};
    if (!node.name.empty()) {
      entry["address"] = print_endpoint(node.address);
      entry["listen"] = print_endpoint(node.listen);
    }
    entry["first_rank"] = node.first_rank;
    entry["workers"] = node.workers;
    nodes.push_back(entry);
  }
  const auto crossing = plan.between_nodes();
  json exchanges = json::array();
  for (const auto& exchange : plan.exchanges) exchanges.push_back(json_of(plan, exchange));
  const json object{{"file", plan.file.file.string()},
                    {"model", plan.model->name},
                    {"parameters", plan.layout.parameter_count},
                    {"data", plan.data->name},
                    {"training_samples", plan.sampling.samples},
                    {"sample_shape", plan.shape.input},
                    {"sample_kind", kind_name_of(plan.facts.kind)},
                    {"evaluated", evaluated_of(plan)},
                    {"classes_of_a_worker", classes_of_a_worker(plan)},
                    {"sparsity", sparsity_of(plan)},
                    {"mean", plan.scale.mean},
                    {"std", plan.scale.std},
                    {"workers", plan.workers},
                    {"batch_size", batch_size_of(plan)},
                    {"devices", devices},
                    {"slowdown", plan.file.workers.slowdown},
                    {"links", links_of(plan)},
                    {"faults", faults_of(plan)},
                    {"loop", plan.file.workers.loop},
                    {"steps_per_epoch", plan.steps_per_epoch},
                    {"steps", plan.steps},
                    {"budget", plan.file.run.budget},
                    {"evaluate_every", plan.when.evaluate_every},
                    {"checkpoint_every", plan.when.checkpoint_every},
                    {"messages_per_step", whole_if_it_is(plan.messages_per_step())},
                    {"bytes_per_step", whole_if_it_is(plan.bytes_per_step())},
                    {"messages_between_nodes_per_step", whole_if_it_is(crossing.messages)},
                    {"bytes_between_nodes_per_step", whole_if_it_is(crossing.bytes)},
                    {"result", result_text(plan)},
                    {"same_bits", plan.promises_bits()},
                    {"notes", plan.notes},
                    {"warnings", plan.warnings},
                    {"exchanges", exchanges},
                    {"nodes", nodes},
                    {"control", plan.control_carrier().empty() ? json(nullptr) : json(plan.control_carrier())},
                    {"actors", actors}};
  return files::json_text(object, {.indent = 2});
}

}  // namespace troupe
