// Errors in the user's input. main prints what() and exits with status 2; nothing has been started.
#pragma once

#include <stdexcept>
#include <string>

namespace troupe {

/// An error in the user's input. what() reads "file:line:column: what is wrong; what was expected (nearest valid
/// name)"; without a line, it begins with the path or the flag.
struct input_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace troupe
