// Flat storage: all parameters of a network as views of one tensor, so that averaging, mixing, sharing and sending
// need no packing. Layout [P | B]: parameters in order of registration, then float buffers; each tensor begins on a
// 64-byte boundary, gaps are zero and stay so.
#pragma once

#include "troupe/models/buffer_pool.hpp"
#include "troupe/models/network.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::models {

/// Where one tensor of the network lies in the flat storage. Offsets and counts in elements (float32).
struct flat_entry {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t first{0};
  std::int64_t count{0};
  bool integer{false};  ///< Held as float32 while training, exact up to 2^24; a state dict holds int64.
};

struct flat_layout {
  std::vector<flat_entry> parameters;  ///< Each tensor once, however many names it has; frozen ones stay outside.
  std::vector<flat_entry> buffers;     ///< Floating point only.
  std::int64_t parameter_end{0};       ///< P, padding included.
  std::int64_t total{0};               ///< P + B, padding included.
  std::int64_t parameter_count{0};     ///< Learnable elements, padding not counted.
};

flat_layout layout_of(const network& net);

/// Returns `layout` with the buffers as further parameters: [P | B] as one.
flat_layout with_buffers(const flat_layout& layout);

/// Copies the network's present weights into a fresh flat tensor [total] of `pool`.
at::Tensor flatten(const network& net, const flat_layout& layout, buffer_pool& pool);

/// Makes parameters and float buffers of `net` views of `flat` [total]; constants follow it to its device. No element
/// is copied.
void bind_weights(network& net, const flat_layout& layout, const at::Tensor& flat);

/// Makes the gradients of `net` views of `flat` [parameter_end], so that backward adds into it.
void bind_gradients(network& net, const flat_layout& layout, const at::Tensor& flat);

/// Returns the tensors of `flat`, by name, as views with the shapes of `layout`, integers as int64 copies: what a state
/// dict holds.
network::named_tensors unflatten(const flat_layout& layout, const at::Tensor& flat);

}  // namespace troupe::models
