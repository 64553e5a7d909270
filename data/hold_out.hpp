// A part of the training samples that is not trained on but evaluated.
#pragma once

#include "troupe/data/dataset.hpp"

#include <cstdint>

namespace troupe::data {

/// Returns floor(samples · fraction): how many are held out. Throws data_error where nothing is, or all is.
std::int64_t held_out_of(std::int64_t samples, double fraction);

/// Takes floor(N · fraction) of the training samples, the last of a permutation that is a function of `seed`, and puts
/// them in the place of the test set; the rest is trained on, in its order. Of a text whose windows begin anywhere it
/// takes the last ones instead, and ends the text there, so that no window reaches into what is held out. Throws
/// data_error where one of the two would be empty.
void hold_out(dataset_pair& sets, double fraction, std::uint64_t seed);

}  // namespace troupe::data
