// Weights from elsewhere: safetensors, a TorchScript module, or a plain dict of tensors that torch.save() wrote. What a
// file is, its bytes say, whatever it is called. Nothing in it is run as Python.
#pragma once

#include "troupe/runtime/checkpoint/safetensors.hpp"

#include <filesystem>

namespace troupe::checkpoint {

/// Throws input_error: path, reason, mend; of a state_dict the line that makes a plain dict of it.
weights read_weights(const std::filesystem::path& path);

}  // namespace troupe::checkpoint
