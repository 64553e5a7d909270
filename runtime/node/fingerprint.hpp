// What the bits of a result depend on besides the topology file: nodes tell each other when they join.
#pragma once

#include "troupe/data/dataset.hpp"

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>

namespace troupe {

/// Returns Troupe's version.
std::string version();

/// Returns LibTorch's version, its CPU capability and the CPU's name, by what a person calls them.
std::map<std::string, std::string> fingerprint();

/// Says in words in which of these `theirs` differs from `ours`; empty where it does not.
std::string differing(const std::map<std::string, std::string>& ours, const std::map<std::string, std::string>& theirs);

/// Returns the CRC-32C of a CPU tensor's bytes, as 8 hexadecimal digits; of the bytes of a file behind them, unless its
/// path is empty: that of the module whose weights they are.
std::string digest_of(const at::Tensor& values, const std::filesystem::path& script = {});

/// Returns one of all samples, training and validation.
std::string digest_of(const data::dataset_pair& data);

}  // namespace troupe
