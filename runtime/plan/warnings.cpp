#include "troupe/algorithms/exchange/around/codec.hpp"
#include "troupe/algorithms/exchange/around/outer.hpp"
#include "troupe/files/text.hpp"
#include "troupe/runtime/plan/derive.hpp"
#include "troupe/runtime/support/units.hpp"
#include "troupe/runtime/topology/schema.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace troupe {

namespace {

/// Warns about workers that take part in no exchange: their separate models are averaged only in the result.
void check_exchanges(const plan& plan, std::vector<std::string>& warnings) {
  if (plan.workers == 1) return;
  std::vector<bool> takes_part(plan.workers);
  for (const auto& exchange : plan.exchanges)
    for (const auto rank : exchange.ranks()) takes_part.at(rank) = true;
  std::vector<std::string> alone;
  for (std::uint32_t rank = 0; rank < plan.workers; ++rank)
    if (!takes_part[rank]) alone.push_back("w" + std::to_string(rank));
  if (alone.empty()) return;
  const auto none = alone.size() == plan.workers;
  const auto which =
      none ? "no exchange connects the " + grouped(plan.workers) + " workers"
      : alone.size() <= 8
          ? text::listed(alone, "and") + (alone.size() == 1 ? " takes" : " take") + " part in no exchange"
          : grouped(alone.size()) + " workers, " + alone.front() + " among them, take part in no exchange";
  warnings.push_back(which + ": each of them trains a separate model, and the models are averaged only at the end; " +
                     (none ? "add an [exchange] for all workers" : "add them to the members of an exchange") +
                     ", or reduce workers.count");
}

void check_optimizer(const plan& plan, std::vector<std::string>& warnings) {
  const auto& given = plan.file.optimizer;
  if (given.lr == 0) warnings.push_back("optimizer.lr = 0 does not change the weights");
  if (given.weight_decay == 0 && (!given.no_decay.empty() || given.decay_min_dims > 0))
    warnings.push_back(std::string(given.no_decay.empty() ? "optimizer.decay_min_dims" : "optimizer.no_decay") +
                       " has no effect without optimizer.weight_decay");
  if (given.schedule_by == "epoch" && given.schedule == "constant" && given.warmup_epochs == 0)
    warnings.push_back("optimizer.schedule_by has no effect without a schedule or a warm-up");
}

/// Warns about a batch that is larger than any class of any worker of a split by label, which is probably a mistake.
void check_classes(const plan& plan, std::vector<std::string>& warnings) {
  if (plan.file.data.split != "by_label") return;
  std::int64_t most = 0;
  for (const auto& counts : plan.facts.class_counts)
    for (const auto count : counts) most = std::max(most, count);
  if (most == 0 || plan.sampling.batch_size <= most) return;
  warnings.push_back("data.batch_size = " + std::to_string(plan.sampling.batch_size) +
                     " is larger than the number of samples that any worker has of any class (at most " +
                     grouped(static_cast<std::uint64_t>(most)) + " with data.split = \"" + plan.file.data.split +
                     "\"); reduce the batch size or the number of workers");
}

/// Returns "used only by X" if the explanation of a key contains it, without defaults and requirements.
std::string condition_of(const std::string& explanation) {
  const auto begin = explanation.find("Used only");
  if (begin == std::string::npos) return {};
  const auto sentence = explanation.substr(begin, explanation.find(". ", begin) - begin);
  const auto end = std::min(sentence.find(", where"), sentence.find(", which"));
  const auto condition = "u" + sentence.substr(1, end - 1);
  return condition.ends_with('.') ? condition.substr(0, condition.size() - 1) : condition;
}

void add_unused(const std::string& key, const setting& row, std::vector<std::string>& warnings) {
  const auto condition = condition_of(row.explanation);
  warnings.push_back(
      key + " has no effect in this topology" +
      (condition.empty() ? "; `troupe explain " + row.name + "` describes when it is used" : ": it is " + condition));
}

/// Warns about outer optimizers that hardly help, and about what trains on after their last step.
void check_outer_optimizers(const plan& plan, std::vector<std::string>& warnings) {
  for (const auto& exchange : plan.exchanges) {
    const auto outer = outer_of(exchange.settings);
    if (outer.rule == outer_rule::none) continue;
    const auto adaptive = plan.optimizer.name == "adam" || plan.optimizer.name == "adamw";
    if (exchange.due.every == 1 && adaptive && outer.momentum > 0)
      warnings.push_back("exchange." + exchange.name + ": outer momentum after every step of " + plan.optimizer.name +
                         " usually trains worse than averaging; set exchange.every, such as 32, or outer = \"none\"");
    if (exchange.due.every > 1 && !exchange.due.stamps && plan.steps > 0 &&
        !exchange.due.due(plan.steps - 1 + exchange.due.lead))
      warnings.push_back("the run ends between two exchanges of \"" + exchange.name +
                         "\": its result is the mean of the workers, without a step of the outer optimizer; choose "
                         "run.steps as a multiple of " +
                         grouped(exchange.due.every));
  }
}

bool is_symmetric(const rules::mixing_matrix& matrix) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, double> weights;
  for (std::uint32_t i = 0; i < matrix.rows.size(); ++i)
    for (const auto& entry : matrix.rows[i]) weights[{i, entry.index}] = entry.weight;
  return std::all_of(weights.begin(), weights.end(), [&](const auto& entry) {
    const auto back = weights.find({entry.first.second, entry.first.first});
    return back != weights.end() && back->second == entry.second;
  });
}

/// Warns about encodings that cost more than they save, or for which there is no theory.
void check_encodings(const plan& plan, std::vector<std::string>& warnings) {
  for (const auto& exchange : plan.exchanges) {
    const auto members = static_cast<double>(exchange.members.size());
    const auto* mixing = exchange.mixing();
    const auto called = plan.file.exchanges.size() == 1 ? "exchange" : "exchange." + exchange.name;
    if (exchange.nature.consensus_rate > 0 && mixing != nullptr && !is_symmetric(*mixing->constant()))
      warnings.push_back(called + ": CHOCO-SGD is known to converge if W is symmetric, which this one is not");
    const auto codec = codec_of(exchange.codec.how).nature();
    if (codec.same_places && plan.optimizer.momentum > 0)
      warnings.push_back(called + ": encoding = \"random_k\" trains badly with momentum, because most values arrive " +
                         "many steps late; set optimizer.momentum = 0, or choose \"top_k\" or \"powersgd\"");
    if (!codec.by_magnitude || !exchange.nature.averages) continue;
    if (exchange.codec.ratio * members > 1)
      warnings.push_back(called + ".ratio = " + topology::to_toml(exchange.codec.ratio) +
                         " sends more bytes than float32 would, because everything goes to each of the " +
                         grouped(exchange.members.size()) + " members; set it below 1 / " +
                         grouped(exchange.members.size()));
  }
}

/// Warns about what would happen only after the end of the run.
void check_length(const plan& plan, std::vector<std::string>& warnings) {
  if (plan.steps == 0) return;
  const auto run = "the run has only " + counted(plan.steps, "step");
  for (const auto& exchange : plan.exchanges) {
    const auto first = exchange.due.stamps ? exchange.due.next_due(0) : exchange.due.first;
    if (exchange.nature.in_loop && exchange.due.next_due(exchange.due.lead) >= plan.steps + exchange.due.lead)
      warnings.push_back("the exchange \"" + exchange.name + "\" never takes place: it is first due in step " +
                         grouped(first + 1 - exchange.due.lead) + ", but " + run + "; reduce its `every` or `from`");
  }
  const auto& schedule = plan.optimizer.schedule;
  if (schedule.warmup_steps >= plan.steps && schedule.warmup_steps > 0)
    warnings.push_back("optimizer.warmup_epochs lasts " + grouped(schedule.warmup_steps) + " steps, but " + run +
                       ", so the learning rate never reaches optimizer.lr");
  if (!schedule.decay_at.empty() && schedule.decay_at.front() >= plan.steps)
    warnings.push_back("optimizer.decay_epochs begins at step " + grouped(schedule.decay_at.front()) + ", but " + run +
                       ", so the learning rate never decays");
}

/// Warns about steps between the exchanges, or after the last, in which `from` and `until` leave the workers apart.
void check_gaps(const plan& plan, std::vector<std::string>& warnings) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> windows;
  for (const auto& exchange : plan.exchanges) {
    if (!exchange.nature.in_loop) return;
    const auto& due = exchange.due;
    if (due.next_due(due.lead) < plan.steps + due.lead) windows.emplace_back(due.begins_after(), due.ends_after());
  }
  if (plan.workers == 1 || windows.empty()) return;
  std::sort(windows.begin(), windows.end());
  windows.emplace_back(plan.steps, cadence::never);
  std::uint64_t reached = 0;
  for (const auto& [begin, end] : windows) {
    if (begin > reached)
      warnings.push_back("no exchange takes place in steps " + grouped(reached + 1) + " to " + grouped(begin) +
                         ", in which each worker trains a separate model; change `from` or `until` of an exchange");
    reached = std::max(reached, end);
  }
}

/// Warns about keys that are set but not used: parsing has unset them, or their condition is not met.
void check_unused(const plan& plan, std::vector<std::string>& warnings) {
  const auto& file = plan.file;
  const auto& given = file.given;
  for (const auto& section : topology::sections())
    for (const auto& key : section.keys) {
      const auto path = section.name + "." + key.row.name;
      if (!section.repeated() && given.has(path) && !key.get(file, 0)) add_unused(path, key.row, warnings);
    }
  for (const auto& section : topology::sections())
    for (const auto& kinds : section.kinds)
      for (const auto& kind : kinds.all())
        for (const auto& row : *kind.settings)
          if (!section.repeated() && given.has(section.name + "." + row.name) &&
              !section.options(file, 0).contains(row.name) && topology::find_key(section, row.name) == nullptr)
            warnings.push_back(section.name + "." + row.name + " has no effect, because it is a setting of " +
                               kinds.key + " = \"" + kind.name + "\"");
  if (!file.evaluate.target_accuracy && file.evaluate.target_hold != topology::evaluate_settings{}.target_hold)
    warnings.push_back("evaluate.target_hold has no effect without evaluate.target_accuracy");
  const topology::checkpoint_settings usual;
  for (const auto& [key, changed] : {std::pair{"checkpoint.keep", file.checkpoint.keep != usual.keep},
                                     {"checkpoint.copies", file.checkpoint.copies != usual.copies}})
    if (!file.checkpoint.every && changed)
      warnings.push_back(std::string(key) + " has no effect without checkpoint.every");
  const auto has_actors = std::any_of(plan.exchanges.begin(), plan.exchanges.end(),
                                      [](const auto& exchange) { return exchange.nature.is_elsewhere(); });
  const topology::run_settings defaults;
  for (const auto& [key, changed] :
       {std::pair{"run.silence", file.run.silence != defaults.silence},
        {"run.join_timeout", !has_actors && file.run.join_timeout != defaults.join_timeout}})
    if (file.nodes.empty() && changed)
      warnings.push_back(std::string(key) + " has no effect without [[node]] sections");
  if (plan.when.verify_every == 0 && file.run.verify_every > 0 && file.run.verify_every != defaults.verify_every)
    warnings.push_back(
        "run.verify_every has no effect, because this wiring does not keep the workers' parameters equal");
  for (std::size_t i = 0; i < file.exchanges.size(); ++i) {
    const auto& exchange = file.exchanges[i];
    const auto called = file.exchanges.size() == 1 ? "exchange." : "exchange." + exchange.name + ".";
    for (const auto& row : plan.exchanges.at(i).kind->settings)
      if (given.has("exchange." + exchange.name + "." + row.name) && !exchange.options.contains(row.name))
        add_unused(called + row.name, row, warnings);
  }
}

/// Warns about nodes that listen on their own host, but not at their address: no node reaches them unless another
/// program forwards connections.
void check_nodes(const plan& plan, std::vector<std::string>& warnings) {
  const auto host = [](const endpoint& where) { return where.host == "localhost" ? "127.0.0.1" : where.host; };
  for (const auto& node : plan.nodes) {
    if (!is_loopback(node.address) || !is_loopback(node.listen)) continue;
    if (host(node.listen) == host(node.address) && node.listen.port == node.address.port) continue;
    const auto address = print_endpoint(node.address);
    warnings.push_back("node." + node.name + ".listen = \"" + print_endpoint(node.listen) +
                       "\" does not accept connections to " + address +
                       ", the address of the node, unless another program forwards them; remove listen");
  }
}

}  // namespace

std::vector<std::string> warnings_of(const plan& plan) {
  std::vector<std::string> warnings;
  check_nodes(plan, warnings);
  check_exchanges(plan, warnings);
  check_optimizer(plan, warnings);
  check_classes(plan, warnings);
  check_unused(plan, warnings);
  check_length(plan, warnings);
  check_gaps(plan, warnings);
  check_outer_optimizers(plan, warnings);
  check_encodings(plan, warnings);
  return warnings;
}

std::vector<std::string> warnings_of_output(const at::Tensor& output, const models::loss_function& loss) {
  constexpr double rounding = 1e-4;
  if (loss != models::loss_function::cross_entropy || output.dim() < 2 || output.size(1) < 2) return {};
  const auto sums_to_one = output.sum(1).sub(1).abs().max().item<double>() < rounding;
  if (!sums_to_one || output.min().item<double>() < 0) return {};
  return {
      "the model returns probabilities, but the loss cross_entropy applies a softmax itself; remove the softmax from "
      "the model, or return log-probabilities and set model.loss = \"nll\""};
}

}  // namespace troupe
