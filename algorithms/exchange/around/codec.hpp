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

/// Encodes pieces of tensors. It has no state of its own, so any thread may use it.
///
/// Members cut tensors and forward what they receive. For the bits of a result to be the same for every way of cutting,
/// each value must be encoded independently of the others. For replicas to stay equal, encoding a decoded value must
/// not lose anything further.
class codec {
 public:
  virtual ~codec() = default;

  /// Returns the name in topology files, such as "bf16".
  virtual std::string name() const = 0;

  /// Returns the type of the elements of a payload.
  virtual at::ScalarType payload_type() const = 0;

  /// Returns the maximum size, in bytes, of the payload of `elements` values.
  virtual std::int64_t max_bytes(std::int64_t elements) const = 0;

  /// Returns whether a payload of `elements` values may have this size. Unless a codec overrides this, every payload
  /// has the size max_bytes().
  virtual bool may_have(std::int64_t bytes, std::int64_t elements) const { return bytes == max_bytes(elements); }

  /// Returns `values`, float32 [m] with m > 0, as a contiguous payload [k]. `memory` is a float32 tensor of any size
  /// that the last call for the same piece has stored, such as its rounding error; it is undefined at first. It becomes
  /// part of checkpoints. A codec without memory does not change it.
  virtual at::Tensor encode(const at::Tensor& values, at::Tensor& memory) const = 0;

  /// Writes the values of a payload to `values`, float32 [m]. The payload may come from another node: only may_have()
  /// is known to hold. Throws exchange_error if the payload does not encode m values.
  virtual void decode(const at::Tensor& payload, at::Tensor& values) const = 0;
};

/// Returns the codec of an encoding. Throws std::out_of_range if there is none.
const codec& codec_of(encoding how);

/// Adds a codec. Call it before any plan is made. Codecs have the same numbers in all processes that register the same
/// ones in the same order. Throws std::invalid_argument if the name is taken.
encoding register_codec(std::unique_ptr<const codec> made);

/// Returns the names of all codecs, the default first: "float32", "bf16".
std::vector<std::string> encoding_names();

/// Returns the encoding with this name. Throws std::invalid_argument if there is none.
encoding encoding_named(const std::string& name);

/// Returns the number of values of a part.
std::int64_t elements_of(const part& piece);

/// Returns `piece`, whose values are float32, with `payload` in place of its values.
part encoded(const part& piece, encoding how, const at::Tensor& payload);

/// Returns `piece` with its values as float32, from `pool`.
part decoded(const part& piece, models::buffer_pool& pool);

}  // namespace troupe
