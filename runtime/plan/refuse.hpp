// How a plan that cannot be made is refused.
#pragma once

#include "troupe/runtime/topology/error.hpp"
#include "troupe/runtime/topology/topology.hpp"

#include <string>

namespace troupe {

/// Throws input_error with the name of the file, where there is one, before `reason`.
[[noreturn]] inline void refuse(const topology::topology& file, const std::string& reason) {
  throw input_error(file.file.empty() ? reason : file.file.string() + ": " + reason);
}

}  // namespace troupe
