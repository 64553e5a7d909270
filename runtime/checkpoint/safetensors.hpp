// Weights on disk in the safetensors format; see data/formats/safetensors.hpp.
#pragma once

#include "troupe/data/formats/safetensors.hpp"

#include <filesystem>

namespace troupe::checkpoint {

using weights = data::tensor_file;

/// Writes `content` to a temporary file and renames it. The bytes depend only on `content`. Throws std::runtime_error,
/// naming the path.
void write_safetensors(const std::filesystem::path& path, const weights& content);

/// Reads a safetensors file. Throws input_error, naming the path, the reason and the fix; see data::read_safetensors().
weights read_safetensors(const std::filesystem::path& path, const std::string& alternatives = {});

}  // namespace troupe::checkpoint
