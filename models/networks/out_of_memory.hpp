// Failed allocations, as LibTorch and the standard library report them.
#pragma once

#include <exception>
#include <optional>
#include <string>

namespace troupe::models {

/// Returns a message for users if `failure` is a failed allocation: "out of memory: a tensor of … bytes cannot be
/// allocated". Returns nothing for any other failure.
std::optional<std::string> out_of_memory(const std::exception& failure);

}  // namespace troupe::models
