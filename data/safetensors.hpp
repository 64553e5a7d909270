// Tensors on disk, in the safetensors format (8-byte little-endian header length, JSON header, data), so that Python
// reads them by the usual names. Distrusts what it reads: sizes and offsets are checked before they are believed.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace troupe::data {

/// What such a file holds.
struct tensor_file {
  std::vector<std::pair<std::string, at::Tensor>> tensors;  ///< Contiguous, CPU.
  std::map<std::string, std::string> metadata;
};

/// Returns the bytes of the file: a function of `content` alone. Throws std::runtime_error where the format has no such
/// elements.
std::string safetensors_of(const tensor_file& content);

/// Throws data_error: path, reason, mend.
tensor_file read_safetensors(const std::filesystem::path& path);

}  // namespace troupe::data
