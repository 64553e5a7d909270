// The error of the last system call.
#pragma once

#include <cerrno>
#include <system_error>

namespace troupe {

/// Returns errno as an error code.
inline std::error_code last_error() {
  return {errno, std::generic_category()};
}

}  // namespace troupe
