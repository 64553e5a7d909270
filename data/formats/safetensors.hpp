// Tensors on disk in the safetensors format (8-byte little-endian header length, JSON header, data), so that Python
// reads them by the usual names. Input is not trusted: sizes and offsets are checked before use.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace troupe::data {

/// Contents of a safetensors file.
struct tensor_file {
  std::vector<std::pair<std::string, at::Tensor>> tensors;  ///< Contiguous, CPU.
  std::map<std::string, std::string> metadata;              ///< Texts by name.
  std::vector<std::string> left_out{};                      ///< Names of the tensors that were not read.
};

/// Returns the beginning of the file; the values of the tensors follow, in order and without gaps. Throws
/// std::runtime_error if the format does not support an element type.
std::string safetensors_header(const tensor_file& content);

/// Returns the bytes of the file, a function of `content` alone. Throws std::runtime_error if the format does not
/// support an element type.
std::string safetensors_of(const tensor_file& content);

/// How to read a file.
struct reading_options {
  std::string alternatives{};         ///< What else the caller accepts, for the fix in messages.
  std::vector<std::string> wanted{};  ///< Tensors to read; those of other names may have any type. Empty: all.
};

/// Reads a file. Throws data_error with the path, the reason and the fix.
tensor_file read_safetensors(const std::filesystem::path& path, const reading_options& options = {});

/// Returns the contents of a safetensors file from its bytes; `name` stands for its path in messages. Throws
/// data_error.
tensor_file parse_safetensors(std::string bytes, const std::string& name);

}  // namespace troupe::data
