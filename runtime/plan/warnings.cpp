#include "troupe/runtime/plan/warnings.hpp"

#include "troupe/runtime/support/units.hpp"
#include "troupe/runtime/topology/schema.hpp"

#include <ATen/ATen.h>

#include <algorithm>

namespace troupe {

namespace {

/// Workers that take part in no exchange train separate models, which only the result averages.
void check_exchanges(const plan& plan, std::vector<std::string>& found) {
  if (plan.workers == 1) return;
  std::uint32_t alone = 0;
  for (std::uint32_t rank = 0; rank < plan.workers; ++rank)
    alone += std::none_of(plan.exchanges.begin(), plan.exchanges.end(), [&](const auto& exchange) {
      const auto ranks = exchange.ranks();
      return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
    });
  if (alone == 0) return;
  const auto which = alone == plan.workers
                         ? "no exchange connects the " + grouped(plan.workers) + " workers"
                         : grouped(alone) + " of " + grouped(plan.workers) + " workers take part in no exchange";
  found.push_back(
      which +
      ": each of them trains a separate model, and the models are averaged only at the end; add an [exchange] for "
      "all workers, or set workers.count = 1");
}

void check_optimizer(const plan& plan, std::vector<std::string>& found) {
  const auto& given = plan.file.optimizer;
  if (given.lr == 0) found.push_back("optimizer.lr = 0 does not change the weights");
  if (given.weight_decay == 0 && (!given.no_decay.empty() || given.decay_min_dims > 0))
    found.push_back(std::string(given.no_decay.empty() ? "optimizer.decay_min_dims" : "optimizer.no_decay") +
                    " has no effect without optimizer.weight_decay");
  if (given.schedule_by == "epoch" && given.schedule == "constant" && given.warmup_epochs == 0)
    found.push_back("optimizer.schedule_by has no effect without a schedule or a warm-up");
}

/// If each worker has few classes and a batch exceeds every one of them, the batch size is probably a mistake.
void check_classes(const plan& plan, std::vector<std::string>& found) {
  if (plan.file.data.split != "by_label") return;
  std::int64_t most = 0;
  for (const auto& counts : plan.facts.class_counts)
    for (const auto count : counts) most = std::max(most, count);
  if (most == 0 || plan.sampling.batch_size <= most) return;
  found.push_back("data.batch_size = " + std::to_string(plan.sampling.batch_size) +
                  " is larger than the number of samples that any worker has of any class (at most " +
                  grouped(static_cast<std::uint64_t>(most)) + " with data.split = \"" + plan.file.data.split +
                  "\"); reduce the batch size or the number of workers");
}

void add_unused(const std::string& key, const std::string& explained, std::vector<std::string>& found) {
  found.push_back(key + " has no effect in this topology; `troupe explain " + explained +
                  "` describes when it is used");
}

/// Warns about keys that are set but not used: parsing has unset them, or their condition is not met.
void check_unused(const plan& plan, std::vector<std::string>& found) {
  const auto& file = plan.file;
  const auto& given = file.given;
  for (const auto& section : topology::sections())
    for (const auto& key : section.keys) {
      const auto path = section.name + "." + key.row.name;
      if (!section.repeated() && given.has(path) && !key.get(file, 0)) add_unused(path, path, found);
    }
  if (!file.evaluate.target_accuracy && file.evaluate.target_hold != topology::evaluate_settings{}.target_hold)
    add_unused("evaluate.target_hold", "evaluate.target_hold", found);
  if (file.nodes.empty() && file.run.join_timeout != topology::run_settings{}.join_timeout)
    add_unused("run.join_timeout", "run.join_timeout", found);
  for (std::size_t i = 0; i < file.exchanges.size(); ++i) {
    const auto& exchange = file.exchanges[i];
    const auto called = file.exchanges.size() == 1 ? "exchange." : "exchange." + exchange.name + ".";
    for (const auto& row : plan.exchanges.at(i).kind->settings)
      if (given.has("exchange." + exchange.name + "." + row.name) && !exchange.options.contains(row.name))
        add_unused(called + row.name, "exchange." + row.name, found);
  }
}

}  // namespace

std::vector<std::string> warnings_of(const plan& plan) {
  std::vector<std::string> found;
  check_exchanges(plan, found);
  check_optimizer(plan, found);
  check_classes(plan, found);
  check_unused(plan, found);
  return found;
}

std::vector<std::string> warnings_of_output(const at::Tensor& output, models::loss_kind loss) {
  constexpr double rounding = 1e-4;
  if (loss != models::loss_kind::cross_entropy || output.dim() < 2 || output.size(1) < 2) return {};
  const auto sums_to_one = (output.sum(1) - 1).abs().max().item<double>() < rounding;
  if (!sums_to_one || output.min().item<double>() < 0) return {};
  return {
      "the model returns probabilities, but the loss cross_entropy applies a softmax itself; remove the softmax from "
      "the model, or return log-probabilities and set model.loss = \"nll\""};
}

}  // namespace troupe
