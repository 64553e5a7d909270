// Weights written by other programs: safetensors, a TorchScript module, or a plain dict of tensors written by
// torch.save(). The format is recognised from the contents, not from the name. Nothing in the file is executed as
// Python.
#pragma once

#include "troupe/runtime/checkpoint/safetensors.hpp"

#include <filesystem>

namespace troupe::checkpoint {

/// Reads a file of weights. Throws input_error, naming the path, the reason and the fix. For a state_dict, the fix is a
/// command that converts it to a plain dict.
weights read_weights(const std::filesystem::path& path);

}  // namespace troupe::checkpoint
