// A program of torch.export as a network: its operators are called one by one through LibTorch's dispatcher, so that
// autograd and autocast see them as they see those of other networks.
#pragma once

#include "troupe/models/networks/network.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace troupe::models {

/// An operator of an exported program.
struct operator_row {
  std::string name;   ///< Such as "aten.linear.default".
  std::string sizes;  ///< Sizes of its first result, where N is the number of samples: "[N, 10]". Empty if unknown.
  std::string place;  ///< Where the module calls it: "net.py:12". Empty if unknown.
};

/// Returns the operators of a file in the order of execution. Throws file_error.
std::vector<operator_row> operators_of(const std::filesystem::path& path);

/// Returns the tensors of a file under their names in the module's state_dict. Throws file_error.
network::named_tensors weights_of_exported(const std::filesystem::path& path);

}  // namespace troupe::models
