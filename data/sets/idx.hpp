// The idx format of the MNIST family (LeCun, Cortes, Burges, "The MNIST database of handwritten digits"): a big-endian
// magic number 00 00 08 <dimensions>, one 32-bit size per dimension, then unsigned bytes; compressed with gzip or not.
#pragma once

#include "troupe/data/sets/dataset.hpp"

#include <filesystem>

namespace troupe::data {

/// Reads the uint8 tensor with `dimensions` dimensions from the file. Sizes are checked before memory is allocated.
/// Throws data_error if the file is missing, damaged, truncated, too long, or not an idx file.
at::Tensor read_idx(const std::filesystem::path& file, int dimensions);

/// Reads an image set from the four files of the MNIST family, each with or without .gz. Throws data_error if a file or
/// a count is wrong, or a label is not one of `classes`. `fetch` is the set's name for `troupe data fetch`.
dataset_pair read_mnist_family(const std::filesystem::path& folder, const std::vector<std::string>& classes,
                               const std::string& fetch);

}  // namespace troupe::data
