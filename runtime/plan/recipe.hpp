// The parts of a plan that come from a recipe: the optimizer with its learning rate over the run, and the augmentation.
#pragma once

#include "troupe/algorithms/training/optimizer.hpp"
#include "troupe/data/sampling/augment.hpp"
#include "troupe/data/sets/dataset.hpp"
#include "troupe/runtime/plan/stages.hpp"
#include "troupe/runtime/topology/topology.hpp"

#include <cstdint>
#include <string>

namespace troupe {

/// Returns the optimizer of a run, its learning rate scaled with the batch. Throws input_error if the settings
/// contradict each other or the wiring.
optimizer_options optimizer_of(const planned_exchanges& so_far);

/// Returns the ranges of the parameter tensors.
std::vector<range> tensors_of(const models::flat_layout& layout);

/// Returns the number of samples that one step averages over: the batches of all workers if every step averages the
/// gradients of all of them, or the batch of a single worker. Returns 0 if no step averages over all workers.
std::int64_t effective_batch(const planned_exchanges& so_far);

/// Returns text such as ", beta 0.9" for the settings of a registered kind.
std::string settings_text(const std::vector<setting>& rows, const setting_values& values);

/// Describes the optimizer on one line, for people.
std::string optimizer_text(const planned_training& plan);

/// Returns the augmentation of the preset, overridden by the keys given in the file.
data::augmentation augmentation_of(const topology::topology& file);

/// Returns the mean and std, equal for all channels, that belong to the file's preset; empty means those of the data
/// set.
data::normalisation scale_of_preset(const topology::topology& file, std::int64_t channels);

}  // namespace troupe
