// Lets a gradient leave in buckets while a backward pass still computes the rest of it.
#pragma once

#include "troupe/algorithms/messages/messages.hpp"
#include "troupe/models/storage/flat.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace troupe {

/// Receives the buckets of a gradient that leaves, each once and as soon as it is computed, from any thread, one at a
/// time. `computed` is how much has been computed by then: the share of a backward pass, from 0 to 1, or the number of
/// gradients of a request.
using bucket_sink = std::function<void(part, double computed)>;

/// Counts the finished gradients of a backward pass and sends each bucket with the last gradient in it.
class bucket_watch {
 public:
  bucket_watch(const models::flat_layout& layout, std::vector<range> buckets);

  /// Called before a backward pass that adds to `gradient`. The buckets of `gradient` go to `leave`. Both must outlive
  /// the pass.
  void begin(const part& gradient, const bucket_sink& leave);

  /// Called when the gradient of a parameter is complete. Ignored outside begin() and end(): the gradients of a pass
  /// that is not the last of its step are not complete.
  void complete(std::size_t parameter);

  /// Called after the pass: sends the buckets with parameters that were not used in it; their gradients are zeros.
  void end();

  /// Called in place of a pass that is not computed, before end(): sends all buckets in their order.
  void skip();

 private:
  void send(std::size_t bucket);

  std::vector<range> buckets_;
  std::vector<std::size_t> bucket_of_;  ///< By parameter of the layout.
  std::vector<std::int64_t> open_;      ///< By bucket: number of gradients that are not complete.
  std::int64_t sent_{0};                ///< Number of elements that the pass has computed.
  const part* gradient_{nullptr};
  const bucket_sink* leave_{nullptr};
};

}  // namespace troupe
