#include "troupe/algorithms/training/optimizer_kinds.hpp"

#include "troupe/algorithms/training/libtorch_optimizers.hpp"
#include "troupe/algorithms/training/novograd.hpp"
#include "troupe/files/kind_list.hpp"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

namespace {

kind_list<optimizer_kind>& optimizers() {
  static kind_list<optimizer_kind> kinds{
      "an optimizer",
      {
          {.name = "sgd",
           .explanation = "SGD: v = momentum·v + g + weight_decay·p; p = p - lr·v.",
           .reads = {"momentum", "nesterov"},
           .make = make_sgd,
           .skips_tensors = true},
          {.name = "adam",
           .explanation =
               "Adam (Kingma and Ba 2015, algorithm 1), with weight_decay·p added to the gradient and betas of "
               "[0.9, 0.999] by default.",
           .reads = {"betas", "eps"},
           .make = make_adam,
           .skips_tensors = true},
          {.name = "adamw",
           .explanation =
               "AdamW (Loshchilov and Hutter 2019, algorithm 2): like adam, but p = p - lr·weight_decay·p is a "
               "separate update.",
           .reads = {"betas", "eps"},
           .make = make_adamw,
           .skips_tensors = true},
          {.name = "novograd",
           .explanation =
               "NovoGrad (Ginsburg et al. 2019) as in the package torch_optimizer. For each tensor, v = beta2·v "
               "+ (1-beta2)·|g|², starting from v = |g|²; m = beta1·m + g/(√v+eps) + weight_decay·p; p = p - "
               "lr·m. The default betas are [0.95, 0.0].",
           .reads = {"betas", "eps", "grad_averaging", "moment_start"},
           .by_layer = true,
           .make = make_novograd,
           .skips_tensors = true},
      }};
  return kinds;
}

}  // namespace

const std::deque<optimizer_kind>& optimizer_kinds() {
  return optimizers().all();
}

const optimizer_kind* find_optimizer(const std::string& name) {
  return optimizers().find(name);
}

namespace {

/// Keys of [optimizer] that only those optimizers use that list them.
const std::vector<std::string> keys_of_some{"momentum", "nesterov", "betas", "eps", "grad_averaging", "moment_start"};

bool contains(const std::vector<std::string>& keys, const std::string& key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

}  // namespace

void register_optimizer(optimizer_kind kind) {
  const auto about = "the optimizer \"" + kind.name + "\" ";
  if (!kind.make) throw std::invalid_argument(about + "has no function `make`");
  for (const auto& key : kind.reads)
    if (!contains(keys_of_some, key))
      throw std::invalid_argument(about + "reads \"" + key + "\", which is not a key that only some optimizers read");
  optimizers().add(std::move(kind));
}

bool goes_by(const optimizer_kind& kind, const std::string& key) {
  return contains(kind.reads, key) || !contains(keys_of_some, key);
}

std::pair<double, double> betas_of(const optimizer_options& options, double first, double second) {
  return options.betas.empty() ? std::pair{first, second} : std::pair{options.betas.at(0), options.betas.at(1)};
}

void check_entries(const state_dict& saved, const std::vector<std::string>& names) {
  if (saved.empty()) return;
  for (const auto& [name, values] : saved.entries())
    if (std::find(names.begin(), names.end(), name) == names.end())
      throw state_error("the entry \"" + name + "\" is unknown to this optimizer");
  for (const auto& name : names)
    if (!saved.has(name)) throw state_error("the entry \"" + name + "\" of the optimizer is missing");
}

void check_size(const at::Tensor& restored, std::int64_t parameters) {
  if (restored.numel() != parameters)
    throw state_error("the optimizer's state has " + std::to_string(restored.numel()) + " parameters; expected " +
                      std::to_string(parameters));
}

}  // namespace troupe
