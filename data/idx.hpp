// The idx format of the MNIST family (LeCun, Cortes, Burges, "The MNIST database of handwritten digits"): big-endian
// magic 00 00 08 <dimensions>, one 32-bit size for each dimension, then unsigned bytes; compressed by gzip or not.
#pragma once

#include "troupe/data/dataset.hpp"

#include <filesystem>

namespace troupe::data {

/// Returns the uint8 tensor of `dimensions` dimensions that the file holds. Sizes are checked before memory is
/// taken. Throws data_error where the file is missing, damaged, truncated, longer than it says, or something else.
at::Tensor read_idx(const std::filesystem::path& file, int dimensions);

/// Reads an image set in the four files of the MNIST family, each with .gz or without. Throws data_error where a file
/// or a count is wrong, or a label is not one of `classes`. `fetch` is the set's name for `troupe data fetch`.
dataset_pair read_mnist_family(const std::filesystem::path& folder, const std::vector<std::string>& classes,
                               const std::string& fetch);

}  // namespace troupe::data
