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

/// What an exchange needs to know of a codec.
struct codec_nature {
  /// Number of values that are encoded together, counted from the first of a piece; 0 if a piece cannot be cut. Members
  /// cut an encoded piece only at multiples of it.
  ///
  /// If it is 1, each value is encoded independently of the others, and encoding a decoded value loses nothing further.
  /// Only then are partial sums and answers of servers encoded as well. Answers of other members are encoded unless the
  /// block is 0.
  std::int64_t block{1};
  bool feedback{false};           ///< Default of the setting `feedback`.
  bool requires_feedback{false};  ///< Whether training fails without it.
  bool takes_ratio{false};        ///< Whether the setting `ratio` is required.
  /// Whether the values with the largest magnitudes are sent, on which the settings `ratio_warm_up` and
  /// `momentum_correction` rely.
  bool by_magnitude{false};
  /// Whether all members send the same values, chosen at random by the exchange. The codec encodes only those. Sums of
  /// contributions have no others, so that partial sums and answers of members are sent in the same way.
  bool same_places{false};
  /// Whether tensors are sent as products of two matrices by make_power_sgd_member(), which requires the setting
  /// `rank`. No message is encoded.
  bool takes_rank{false};
};

/// What a codec is told about the values that it encodes.
struct encoding_task {
  std::int64_t used{0};     ///< Number of values that are parameters; the others, which are zero, are padding.
  double ratio{1};          ///< Share of the parameters that is sent, for a codec that sends a share.
  std::uint64_t random{0};  ///< Key of a data::random_stream whose draw number `first` + i is for value i.
  std::int64_t first{0};    ///< See `random`.
};

/// Returns how many values are sent: ⌈ratio · used⌉, and at least one.
std::int64_t share_of(const encoding_task& task);

/// Encodes pieces of tensors: float32 values that are added, averaged and applied as decoded. It has no state of its
/// own, so any thread may use it. What it loses, an exchange with `feedback` adds to what it sends next.
class codec {
 public:
  virtual ~codec() = default;

  /// Returns the name in topology files, such as "bf16".
  virtual std::string name() const = 0;

  /// Returns the properties on which exchanges rely.
  virtual codec_nature nature() const { return {}; }

  /// Returns the type of the elements of a payload.
  virtual at::ScalarType payload_type() const = 0;

  /// Returns the maximum size, in bytes, of the payload of `elements` values.
  virtual std::int64_t max_bytes(std::int64_t elements) const = 0;

  /// Returns the size, in bytes, of the payload of `elements` values that are encoded for this task.
  virtual std::int64_t bytes(std::int64_t elements, const encoding_task& /*task*/) const { return max_bytes(elements); }

  /// Returns whether a payload of `elements` values may have this size. Unless a codec overrides this, every payload
  /// has the size max_bytes().
  virtual bool may_have(std::int64_t bytes, std::int64_t elements) const { return bytes == max_bytes(elements); }

  /// Returns `values`, float32 [m] with m > 0, as a contiguous payload [k], which does not share their memory.
  virtual at::Tensor encode(const at::Tensor& values, const encoding_task& task) const = 0;

  /// Writes the values of a payload to `values`, float32 [m]. The payload may come from another node: only may_have()
  /// is known to hold. Throws exchange_error if the payload does not encode m values.
  virtual void decode(const at::Tensor& payload, at::Tensor& values) const = 0;
};

/// Returns the codec of an encoding. Throws std::out_of_range if there is none.
const codec& codec_of(encoding how);

/// Adds a codec. Call it before any plan is made. Codecs have the same numbers in all processes that register the same
/// ones in the same order. Throws std::invalid_argument if the name is taken.
encoding register_codec(std::unique_ptr<const codec> made);

/// Returns the names of all codecs, the default first: "float32", "bf16", "fp16", "int8", "int4", "sign", "top_k",
/// "random_k", "powersgd".
std::vector<std::string> encoding_names();

/// Returns the encoding with this name. Throws std::invalid_argument if there is none.
encoding encoding_named(const std::string& name);

/// Returns whether this encoding encodes each value by itself; see codec_nature::block.
bool encodes_each_value(encoding how);

/// Returns whether partial sums can be encoded; see codec_nature::block and codec_nature::same_places.
bool encodes_sums(encoding how);

/// Returns the number of values of a part.
std::int64_t elements_of(const part& piece);

/// Returns `piece`, whose values are float32, with `payload` in place of its values.
part encoded(const part& piece, encoding how, const at::Tensor& payload);

/// Returns `piece` with its values as float32, from `pool`.
part decoded(const part& piece, models::buffer_pool& pool);

}  // namespace troupe
