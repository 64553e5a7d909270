// Flat storage: all parameters of a network as views of one tensor, so that averaging, mixing, sharing and sending need
// no packing. Layout [P | B]: parameters in order of registration, then float buffers; each tensor begins on a 64-byte
// boundary, and gaps are always zero.
#pragma once

#include "troupe/models/networks/network.hpp"
#include "troupe/models/storage/buffer_pool.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::models {

/// Position of one tensor of the network in the flat storage. Offsets and counts are in elements (float32).
struct flat_entry {
  std::string name;                 ///< Name in a PyTorch state dict.
  std::vector<std::int64_t> shape;  ///< Shape in the network.
  std::int64_t first{0};            ///< First element in the flat storage.
  std::int64_t count{0};            ///< Number of elements, without padding.
  bool integer{false};  ///< Stored as float32 during training, exact up to 2^24; a state dict contains int64.
};

/// Positions of all tensors of a network in the flat storage.
struct flat_layout {
  /// Parameters; each tensor occurs once, however many names it has, and frozen ones are omitted.
  std::vector<flat_entry> parameters;
  std::vector<flat_entry> buffers;  ///< Float32 buffers only.
  std::int64_t parameter_end{0};    ///< P, padding included.
  std::int64_t total{0};            ///< P + B, padding included.
  std::int64_t parameter_count{0};  ///< Number of learnable elements, excluding padding.
  std::int64_t cut_multiple{16};    ///< Where the storage may be cut: at multiples of it; 16 floats are 64 bytes.
};

/// Returns the layout of a network.
flat_layout layout_of(const network& net);

/// Returns `layout` with the buffers as additional parameters: [P | B] as one.
flat_layout with_buffers(const flat_layout& layout);

/// Copies the network's current weights into a new flat tensor [total] of `pool`.
at::Tensor flatten(const network& net, const flat_layout& layout, buffer_pool& pool);

/// Makes the parameters and float buffers of `net` views of `flat` [total]; constants move to its device. No element is
/// copied.
void bind_weights(network& net, const flat_layout& layout, const at::Tensor& flat);

/// Makes the gradients of `net` views of `flat` [parameter_end], so that backward adds into it.
void bind_gradients(network& net, const flat_layout& layout, const at::Tensor& flat);

/// Returns the tensors of `flat` by name, as views with the shapes of `layout`, and integers as int64 copies: the
/// contents of a state dict.
network::named_tensors unflatten(const flat_layout& layout, const at::Tensor& flat);

}  // namespace troupe::models
