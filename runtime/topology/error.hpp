// What is wrong with the user's input. main prints what() and leaves with status 2; nothing has been started.
#pragma once

#include <stdexcept>
#include <string>

namespace troupe {

/// what() reads "file:line:column: what is wrong; what was expected (nearest valid name)", or begins with the path
/// or the flag where there is no line.
struct input_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace troupe
