// Weights on disk, in the safetensors format: see data/safetensors.hpp.
#pragma once

#include "troupe/data/safetensors.hpp"

#include <filesystem>

namespace troupe::checkpoint {

using weights = data::tensor_file;

/// Writes aside and renames. The bytes are a function of `content` alone. Throws std::runtime_error naming the path.
void write_safetensors(const std::filesystem::path& path, const weights& content);

/// Throws input_error: path, reason, mend.
weights read_safetensors(const std::filesystem::path& path);

}  // namespace troupe::checkpoint
