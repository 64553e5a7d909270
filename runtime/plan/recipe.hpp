// What a plan makes of the words of a recipe: the optimizer with its learning rate over the run, and the augmentation.
#pragma once

#include "troupe/actors/optimizer.hpp"
#include "troupe/data/augment.hpp"
#include "troupe/data/dataset.hpp"
#include "troupe/models/flat.hpp"
#include "troupe/runtime/topology/topology.hpp"

#include <cstdint>

namespace troupe {

/// Returns the optimizer of a run of so many steps, its learning rate scaled with the number of workers. Throws
/// input_error where the words contradict each other.
optimizer_options optimizer_of(const topology::topology& file, const models::flat_layout& layout,
                               std::uint64_t steps_per_epoch, std::uint64_t steps);

/// Returns what the preset says, but for the keys that the file gives.
data::augmentation augmentation_of(const topology::topology& file);

/// Returns the mean and std, the same for all channels, that the file's preset goes with; none: the data set's.
data::normalisation scale_of_preset(const topology::topology& file, std::int64_t channels);

}  // namespace troupe
