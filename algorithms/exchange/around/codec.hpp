// How values are encoded on their way between two ports: codecs, registered by name. Members see float32 only.
#pragma once

#include "troupe/algorithms/messages/part.hpp"
#include "troupe/models/storage/buffer_pool.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// Encodes pieces of tensors. It has no state of its own, so that any thread may use it.
///
/// Members cut what they are given, and pass on what they receive. If the bits of a result are to be the same for every
/// way of cutting, each value must be encoded on its own; and so that replicas stay equal, what was decoded must be
/// encoded without a further loss.
class codec {
 public:
  virtual ~codec() = default;

  /// Returns the name in topology files, such as "bf16".
  virtual std::string name() const = 0;

  /// Returns the type of the elements of a payload.
  virtual at::ScalarType payload_type() const = 0;

  /// Returns the number of bytes, at the most, of the payload of so many values.
  virtual std::int64_t max_bytes(std::int64_t elements) const = 0;

  /// Returns whether a payload of so many values may have this size. Each has max_bytes() unless a codec says
  /// otherwise.
  virtual bool may_have(std::int64_t bytes, std::int64_t elements) const { return bytes == max_bytes(elements); }

  /// Returns `values`, float32 [m] with m > 0, as a contiguous payload [k]. `memory` is what the last call for the same
  /// piece has left there, such as its rounding error, and undefined at first: a float32 tensor of any size, which
  /// becomes part of checkpoints. A codec without memory leaves it alone.
  virtual at::Tensor encode(const at::Tensor& values, at::Tensor& memory) const = 0;

  /// Writes the values of a payload to `values`, float32 [m]. The payload may come from another node: may_have() holds,
  /// and nothing else. Throws exchange_error if it does not stand for m values.
  virtual void decode(const at::Tensor& payload, at::Tensor& values) const = 0;
};

/// Returns the codec of an encoding. Throws std::out_of_range.
const codec& codec_of(encoding how);

/// Adds a codec before any plan is made. Codecs have the same numbers in all processes that register the same ones in
/// the same order. Throws std::invalid_argument if the name is taken.
encoding register_codec(std::unique_ptr<const codec> made);

/// Returns the names of all codecs, the default first: "float32", "bf16".
std::vector<std::string> encoding_names();

/// Returns the encoding with this name. Throws std::invalid_argument.
encoding encoding_named(const std::string& name);

/// Returns the number of values of a part.
std::int64_t elements_of(const part& piece);

/// Returns `piece`, whose values are float32, with the payload that stands for them.
part encoded(const part& piece, encoding how, const at::Tensor& payload);

/// Returns `piece` with its values as float32, from `pool`.
part decoded(const part& piece, models::buffer_pool& pool);

}  // namespace troupe
