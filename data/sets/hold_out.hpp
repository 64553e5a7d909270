// Holds out part of the training samples for evaluation.
#pragma once

#include "troupe/data/sets/dataset.hpp"

#include <cstdint>

namespace troupe::data {

/// Returns floor(samples · fraction), the number of samples to hold out. Throws data_error if that is none or all.
std::int64_t held_out_of(std::int64_t samples, double fraction);

/// Replaces the test set by floor(N · fraction) of the training samples, the last ones of a permutation that is a
/// function of `seed`; the others remain in the training set, in their order. For a text with random windows, the last
/// samples are taken instead and the text ends before them, so that no window reaches into the held-out part. Throws
/// data_error if either set would be empty.
void hold_out(dataset_pair& sets, double fraction, std::uint64_t seed);

}  // namespace troupe::data
