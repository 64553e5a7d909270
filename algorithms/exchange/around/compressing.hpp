// Codecs that send fewer bits than values need: blocks of small integers or signs with a scale, and the largest values.
#pragma once

#include "troupe/algorithms/exchange/around/codec.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

namespace troupe {

/// Makes a codec of integers with 8 or 4 bits, each block of 256 values with a scale of its own: its largest magnitude.
/// Values are rounded at random so that their expectation is exact; those of a block with a value that is not finite
/// all become NaN. Source: Alistarh et al., "QSGD", NIPS 2017, sections 3.1 and 4.
std::unique_ptr<const codec> make_quantizer(std::string name, int bits);

/// Makes a codec of one bit per value: its sign, times the mean magnitude of its block of 256 values. Source:
/// Karimireddy et al., "Error Feedback Fixes SignSGD", ICML 2019, Algorithm 1, with a scale for each block in place of
/// one for the tensor.
std::unique_ptr<const codec> make_sign_codec();

/// Makes a codec of the k largest magnitudes, k = max(1, ⌈ratio · parameters⌉): their indices, ascending, as uint32,
/// followed by their values as float32. Of equal magnitudes, the lower index comes first; NaN is the largest. Source:
/// Stich, Cordonnier and Jaggi, "Sparsified SGD with Memory", NeurIPS 2018, Algorithm 1.
std::unique_ptr<const codec> make_top_k();

/// Returns the indices in a payload of top-k as a view, int32 [k].
at::Tensor chosen_by_top_k(const at::Tensor& payload);

}  // namespace troupe
