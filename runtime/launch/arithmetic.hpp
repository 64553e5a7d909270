// Digests of what this process computes from fixed numbers. LibTorch, oneDNN and MKL choose their kernels at run time,
// depending on the processor and on environment variables, and each kernel sums in its own order.
#pragma once

#include <string>

namespace troupe {

/// Digests of the results of fixed operations, each a CRC-32C in 8 hexadecimal digits. Where they differ, the processes
/// round differently. Where they are equal, other shapes may still be rounded differently.
struct arithmetic {
  std::string float32;   ///< Products, convolutions with their gradients, exponentials and sums.
  std::string bfloat16;  ///< Products and convolutions in bfloat16.
};

/// Computes the digests with one intra-op thread, in about 10 ms.
arithmetic compute_arithmetic();

/// Returns the digests of this process, computed by the first call.
const arithmetic& arithmetic_here();

/// Returns the environment variables that select kernels, as "NAME=value NAME=value", or "default".
std::string kernel_settings();

}  // namespace troupe
