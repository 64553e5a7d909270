// The exception that readers of data throw.
#pragma once

#include <stdexcept>

namespace troupe::data {

/// A missing, truncated or inconsistent file; what() names the file, the reason and the fix.
struct data_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace troupe::data
