// Weights on disk, in the safetensors format (8-byte little-endian header length, JSON header, data), so that Python
// reads them by the usual names. Distrusts what it reads: sizes and offsets are checked before they are believed.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace troupe::checkpoint {

struct weights {
  std::vector<std::pair<std::string, at::Tensor>> tensors;  ///< Contiguous, CPU.
  std::map<std::string, std::string> metadata;
};

/// Writes aside and renames. The bytes are a function of `content` alone. Throws std::runtime_error naming the path.
void write_safetensors(const std::filesystem::path& path, const weights& content);

/// Throws input_error: path, reason, mend.
weights read_safetensors(const std::filesystem::path& path);

}  // namespace troupe::checkpoint
