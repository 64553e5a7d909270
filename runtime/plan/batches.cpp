#include "troupe/runtime/plan/batches.hpp"

#include "troupe/models/networks/model_file.hpp"
#include "troupe/models/networks/samples.hpp"
#include "troupe/runtime/plan/refuse.hpp"
#include "troupe/runtime/support/units.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <exception>

namespace troupe {

namespace {

std::int64_t micro_batch_size(const planned_work& plan) {
  return plan.sampling.batch_size / plan.micro_batches;
}

}  // namespace

rules::evaluation_options evaluation_of(const planned_work& plan) {
  const auto& given = plan.file.evaluate;
  return {.batch_size = given.batch_size,
          .shares = given.split == "workers" ? static_cast<std::int64_t>(plan.workers) : 1,
          .drop_last = given.drop_last,
          .top_k = given.top_k};
}

pass_count passes_of(const planned_work& plan) {
  const auto micro = micro_batch_size(plan);
  const auto of_last = (data::last_batch_size(plan.sampling) + micro - 1) / micro;
  return {.of_step = static_cast<std::uint64_t>(plan.micro_batches),
          .of_last = static_cast<std::uint64_t>(of_last),
          .steps_per_epoch = plan.steps_per_epoch};
}

void check_evaluation(const planned_work& so_far) {
  const auto how = evaluation_of(so_far);
  const auto samples = so_far.facts.evaluated;
  if (samples == 0 || rules::evaluated_samples(samples, how) > 0) return;
  const auto share = rules::samples_per_share(samples, how);
  const auto whose = how.shares == 1 ? "the " + grouped(samples) + " samples that are evaluated"
                                     : "a share of " + grouped(share) + " samples (" + grouped(samples) +
                                           " are evaluated, divided among " + grouped(how.shares) + " workers)";
  refuse(so_far.file, "evaluate.drop_last",
         "evaluate.drop_last = true leaves nothing to evaluate: evaluate.batch_size = " +
             std::to_string(how.batch_size) + " exceeds " + whose + "; use at most " + std::to_string(share));
}

void check_each_worker(const planned_exchanges& so_far) {
  if (!so_far.file.evaluate.each_worker) return;
  const auto same = so_far.workers == 1              ? "there is only one"
                    : so_far.replicas_agree()        ? "all workers have the same parameters after each step"
                    : so_far.memory_of(0) != nullptr ? "the workers share their parameters in one memory"
                                                     : nullptr;
  if (same)
    refuse(so_far.file, "evaluate.each_worker",
           std::string("evaluate.each_worker = true has no effect, because ") + same +
               "; use false, or a wiring in which the workers' parameters differ");
}

void check_last_batch(const planned_work& so_far) {
  const auto micro = micro_batch_size(so_far), last = data::last_batch_size(so_far.sampling);
  const auto synchronised = so_far.file.model.sync_batch_norm && so_far.workers > 1;
  if (so_far.sampling.drop_last || micro == 1 || last % micro != 1 || synchronised) return;
  try {
    const at::NoGradGuard unrecorded;
    at::Generator generator = at::detail::createCPUGenerator(1);
    const auto net = models::make_network(*so_far.model, so_far.shape, so_far.file.run.seed);
    net->draw_from(generator);
    net->train(true);
    net->forward(models::made_up_samples(so_far.facts.kind, so_far.shape, 1, generator));
  } catch (const std::exception& reason) {
    refuse(so_far.file, "data.drop_last",
           std::string("data.drop_last = false leaves a last ") + (last == 1 ? "batch" : "micro-batch") +
               " of one sample, on which " + so_far.model->name + " cannot be trained: " + models::reason_of(reason) +
               "; use another " + (last == 1 ? "data.batch_size" : "data.micro_batch_size") +
               ", or data.drop_last = true");
  }
}

void check_batch_range(const planned_work& so_far, const models::batch_range& accepted) {
  const auto check = [&](const std::string& key, const std::string& which, std::int64_t samples) {
    if (samples == 0 || (samples >= accepted.least && samples <= accepted.most)) return;
    refuse(so_far.file, key,
           which + " of " + counted(samples, "sample") + " is " +
               (samples < accepted.least ? "smaller than the " + grouped(accepted.least)
                                         : "larger than the " + grouped(accepted.most)) +
               " that " + so_far.file.model.file().filename().string() + " was exported for; change " + key +
               ", or export the module with another range of torch.export.Dim()");
  };
  const auto& file = so_far.file;
  const std::string of_training = file.data.micro_batch_size    ? "data.micro_batch_size"
                                  : file.data.global_batch_size ? "data.global_batch_size"
                                                                : "data.batch_size";
  const auto micro = micro_batch_size(so_far);
  check(of_training, "a batch", micro);
  if (!so_far.sampling.drop_last) check(of_training, "the last batch", data::last_batch_size(so_far.sampling) % micro);
  const auto how = evaluation_of(so_far);
  const auto share = rules::samples_per_share(so_far.facts.evaluated, how);
  check("evaluate.batch_size", "an evaluation batch", std::min(how.batch_size, share));
  if (!how.drop_last) check("evaluate.batch_size", "the last evaluation batch", share % how.batch_size);
}

void check_budget(const planned_exchanges& so_far) {
  if (!so_far.draws_from_queue() || so_far.workers == 1 || so_far.workers_are_independent()) return;
  refuse(so_far.file, "run.budget",
         "run.budget = \"total\" requires a wiring in which no worker waits for another, such as parameter_server "
         "(without staleness_bound) or elastic with apply = \"each\", or shared with replicas = \"machine\"; use one "
         "of these, or run.budget = "
         "\"worker\"");
}

std::string shares_text(const planned_work& plan) {
  const auto how = evaluation_of(plan);
  const auto share = rules::samples_per_share(plan.facts.evaluated, how);
  const auto left_out = how.drop_last ? share % how.batch_size : 0;
  std::string text;
  if (how.shares > 1)
    text += ", divided into " + grouped(how.shares) + " shares of " + grouped(share) + " whose results are averaged";
  if (left_out > 0) text += ", without the last " + grouped(left_out) + (how.shares > 1 ? " of each share" : "");
  return text;
}

std::size_t loader_threads_of(const topology::data_settings& given, std::uint32_t workers, unsigned cores) {
  if (given.threads) return static_cast<std::size_t>(*given.threads);
  return std::min<std::size_t>(std::max(1u, cores / 2), workers);
}

}  // namespace troupe
