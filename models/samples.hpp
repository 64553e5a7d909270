// What batches of samples are made of, and made-up ones of any shape: to try a network before it meets real ones.
#pragma once

#include "troupe/models/network.hpp"

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace troupe::models {

enum class sample_kind : std::uint8_t {
  images,      ///< [N, C, H, W], float32: bytes that were scaled.
  numbers,     ///< [N, …], float32.
  characters,  ///< [N, T], int64: of a text, or other tokens.
  sparse,      ///< [N, columns], sparse CSR.
};

/// Returns `count` samples of this shape as network::forward() takes them: numbers in [0, 1) from `generator`, the
/// first character, or a 1 in the first column of each dimension.
at::Tensor made_up_samples(sample_kind kind, const network_shape& shape, std::int64_t count,
                           const at::Generator& generator);

/// Returns targets for so many samples: class 0, or the number 0; of sequences one for each position.
at::Tensor made_up_targets(bool sequences, const network_shape& shape, std::int64_t count);

}  // namespace troupe::models
