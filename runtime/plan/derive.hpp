// What make_plan() derives and checks, in the order of the stages. Each function takes the stage that it needs: see
// stages.hpp. Further ones: batches.hpp, devices.hpp, faults.hpp, links.hpp, memory_needs.hpp, recipe.hpp.
#pragma once

#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/plan/refuse.hpp"
#include "troupe/runtime/plan/stages.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// Returns text such as "data.batch_size = 32".
inline std::string equals(const std::string& key, std::int64_t value) {
  return key + " = " + std::to_string(value);
}

/// Returns text such as "1×28×28".
std::string sizes_text(at::IntArrayRef sizes);

// Values of keys, in plan.cpp.

/// Returns how the training samples are divided among the workers.
data::split split_named(const topology::topology& file);

/// Steps are kept far below 2^63, so that no sum of them overflows and every JSON reader can hold them.
constexpr std::uint64_t most_steps = std::uint64_t{1} << 53;

/// Maximum number of exchanges of a run that a plan lists: 80 MB.
constexpr std::uint64_t most_listed = 10'000'000;

/// Returns an interval in steps.
std::uint64_t steps_between(const topology::interval& every, std::uint64_t steps_per_epoch);

// The data, in model_fit.cpp.

/// Returns the normalisation of the inputs.
data::normalisation scale_of(const topology::topology& file, const data::dataset_kind& kind,
                             const models::network_shape& shape, bool images);

/// Throws input_error if the samples cannot be augmented as requested.
void check_augmentation(const planned_data& so_far);

// The model, in model_fit.cpp.

/// Makes the network. Throws input_error if it does not take the samples of the data set.
std::unique_ptr<models::network> make_network_of(const planned_data& so_far);

/// Returns the loss in effect. Throws input_error if it does not fit the output of the network or the targets, which
/// are numbers if there are no `classes`.
models::loss_function loss_of(const topology::topology& file, const models::network& net, std::int64_t classes);

/// Throws input_error for keys that require an accuracy, if there is none.
void check_accuracy(const topology::topology& file, const models::loss_function& loss);

/// Throws input_error if top-k accuracy would count every sample as correct.
void check_top_k(const planned_model& so_far);

/// Runs a model on generated samples like those of the run, before anything starts. Returns warnings about its output.
/// Throws input_error if the model does not take the samples, or if the loss cannot use its output.
std::vector<std::string> try_out(const planned_work& so_far, const models::loss_function& loss, models::network& net);

/// Runs a training step of a model on generated samples. Returns a note on the parameters that get no gradient, which
/// the optimizer skips; empty if there are none. Uses up `net`. Throws input_error if the step fails.
std::string note_on_missing_gradients(const planned_model& so_far, models::network& net);

/// Takes a training step with code of a program or plug-in, and returns what of it draws from the generator of the
/// process. Uses up `net`. Throws input_error if the step fails.
std::vector<std::string> draws_from_process(const planned_training& so_far, models::network& net);

/// Describes a module's own random draws, which users may not expect.
std::string note_on_draws(const std::vector<std::string>& operators);

// The exchanges and their traffic, in exchanges.cpp.

/// Derives exchange `place` of the file. `before` are the exchanges before it. Throws input_error.
planned_exchange plan_exchange(const planned_model& so_far, const std::vector<planned_exchange>& before,
                               std::uint32_t place);

/// Derives the exchange "batch_norm", which combines the statistics of batch norms with these numbers of channels and
/// follows all other exchanges. Throws input_error if the workers do not run their layers in lockstep.
planned_exchange plan_norms(const planned_exchanges& so_far, const std::vector<std::int64_t>& channels);

/// Chooses for each exchange what depends on the network (exchange_traffic::choices) and derives its traffic.
std::vector<exchange_traffic> plan_traffic(const planned_wiring& so_far);

// Warnings, in warnings.cpp.

/// Returns warnings about what is legal but probably not intended, one line each. A warning states what the plan does
/// and how to change it.
std::vector<std::string> warnings_of(const plan& plan);

/// Returns a warning if the model returns probabilities but the loss expects scores. `output` is the model's output for
/// generated samples, [b, classes, …].
std::vector<std::string> warnings_of_output(const at::Tensor& output, const models::loss_function& loss);

}  // namespace troupe
