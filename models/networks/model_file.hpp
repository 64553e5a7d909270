// What networks that are read from files have in common.
#pragma once

#include <ATen/core/Tensor.h>

#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>

namespace troupe::models {

/// A file of a model that is damaged, of another kind or version, or has nothing to train; what() names the file, the
/// reason and the fix. Also wraps failures of the module's own code, in one line.
struct file_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Returns the message of an exception of LibTorch or of TorchScript's interpreter, without the call trace, in one
/// line.
std::string reason_of(const std::exception& failure);

/// Returns whether a buffer is the counter of one of PyTorch's batch norms. Other integers keep their type, because
/// code may use them as indices.
bool counts_batches(std::string_view name, const at::Tensor& buffer);

/// Returns a type as PyTorch calls it: "float32", "int64".
std::string type_name(at::ScalarType type);

}  // namespace troupe::models
