#include "tests/support/tiny.hpp"

#include "troupe/data/random/random.hpp"
#include "troupe/data/sampling/sampler.hpp"
#include "troupe/models/networks/batch_norm.hpp"
#include "troupe/models/networks/module.hpp"
#include "troupe/models/storage/flat.hpp"
#include "troupe/runtime/plan/derive.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/modules/linear.h>

#include <stdexcept>

namespace troupe::tests {

namespace {

class tiny final : public models::network {
 public:
  at::Tensor forward(const at::Tensor& input) override { return at::linear(input.flatten(1), weight_, bias_); }
  void train(bool) override {}
  void draw_from(at::Generator) override {}
  named_tensors parameters() const override { return {{"weight", weight_}, {"bias", bias_}}; }
  named_tensors buffers() const override { return {}; }
  models::loss_function loss() const override { return models::loss_function::cross_entropy; }

 private:
  at::Tensor weight_ = at::arange(12, at::kFloat).reshape({3, 4}).div_(100).requires_grad_();
  at::Tensor bias_ = at::zeros({3}).requires_grad_();
};

class normed final : public models::random_module {
 public:
  at::Tensor forward(const at::Tensor& input) override {
    const auto x = bn1_->forward(input.flatten(1).view({-1, 4, 1, 1}));
    return bn2_->forward(fc_->forward(x.flatten(1)).view({-1, 3, 1, 1})).flatten(1);
  }

 private:
  models::BatchNorm2d bn1_ = register_module("bn1", models::BatchNorm2d(4));
  torch::nn::Linear fc_ = register_module("fc", torch::nn::Linear(4, 3));
  models::BatchNorm2d bn2_ = register_module("bn2", models::BatchNorm2d(3));
};

}  // namespace

const models::network_kind& normed_network() {
  static const models::network_kind kind{"normed", "softmax regression between batch norms",
                                         [](const models::network_shape&) -> std::unique_ptr<models::network> {
                                           return models::as_built_in(std::make_shared<normed>(),
                                                                     models::loss_function::cross_entropy);
                                         }};
  return kind;
}

const models::network_kind& tiny_network() {
  static const models::network_kind kind{
      "tiny", "softmax regression",
      [](const models::network_shape&) -> std::unique_ptr<models::network> { return std::make_unique<tiny>(); }};
  return kind;
}

data::dataset_pair tiny_data(std::int64_t samples) {
  data::random_stream random{7};
  auto set = std::make_shared<data::dataset>();
  set->inputs = at::empty({samples, 1, 2, 2}, at::kByte);
  set->targets = at::empty({samples}, at::kLong);
  set->classes = {"a", "b", "c"};
  for (std::int64_t i = 0; i < samples; ++i) {
    const auto label = static_cast<std::int64_t>(random.below(3));
    set->targets.data_ptr<std::int64_t>()[i] = label;
    for (std::int64_t j = 0; j < 4; ++j)
      set->inputs.data_ptr<std::uint8_t>()[4 * i + j] =
          static_cast<std::uint8_t>((j == label ? 150 : 0) + random.below(100));
  }
  return {set, set, {}, {}};
}

plan tiny_plan(const tiny_options& options) {
  plan result;
  result.file.file = "tiny.toml";
  result.file.run.seed = 1;
  result.file.run.steps = options.steps;
  result.file.run.budget = options.total_budget ? "total" : "worker";
  result.file.optimizer.lr = result.file.optimizer.momentum = 0.5;
  result.file.workers.count = options.workers;
  result.file.workers.loop = {"gradient", "apply"};
  result.file.model.sync_batch_norm = options.norms;
  result.model = options.norms || options.normed ? &normed_network() : &tiny_network();
  result.shape = {.input = {1, 2, 2}, .classes = 3};
  result.loss = models::loss_function::cross_entropy;
  const auto net = result.model->make(result.shape);
  result.layout = models::layout_of(*net);
  result.sampling = {.samples = options.samples,
                     .batch_size = options.batch_size,
                     .rank = 0,
                     .workers = options.workers,
                     .how = data::split::strided,
                     .shuffle = true,
                     .seed = 1,
                     .drop_last = !options.keeps_last,
                     .pad = options.pads,
                     .queue = options.total_budget};
  result.workers = options.workers;
  result.micro_batches = options.micro_batches;
  result.nodes.front().workers = options.workers;
  if (!options.nodes.empty()) result.nodes.clear();
  std::uint32_t first_rank = 0;
  for (const auto workers : options.nodes) {
    const std::vector<std::string> names{"alpha", "beta", "gamma", "delta"};
    result.nodes.push_back({.name = names.at(result.nodes.size()), .first_rank = first_rank, .workers = workers});
    first_rank += workers;
  }
  result.steps_per_epoch = static_cast<std::uint64_t>(data::steps_per_epoch(result.sampling));
  result.steps = options.steps;
  result.when = {
      .steps = options.steps, .steps_per_epoch = result.steps_per_epoch, .evaluate_every = options.evaluate_every};
  if (!options.exchange.empty()) {
    result.file.workers.loop = options.loop;
    result.file.exchanges = {{.name = "exchange",
                              .kind = options.exchange,
                              .sends = options.sends,
                              .every = {options.every, false},
                              .options = options.settings}};
    if (!options.exchanges.empty()) result.file.exchanges = options.exchanges;
    for (std::uint32_t place = 0; place < result.file.exchanges.size(); ++place)
      result.exchanges.push_back(plan_exchange(result, result.exchanges, place));
  }
  result.optimizer = optimizer_of(result);
  if (options.norms) result.exchanges.push_back(plan_norms(result, net->norm_channels()));
  result.traffic = plan_traffic(result);
  return result;
}

void remembered::write(const record& line) {
  if (line.step == fail_at_step) throw std::runtime_error("no space left on the shelf");
  lines.push_back(line);
}

std::vector<record> remembered::of(const std::string& event) const {
  std::vector<record> found;
  for (const auto& line : lines)
    if (line.event == event) found.push_back(line);
  return found;
}

}  // namespace troupe::tests
