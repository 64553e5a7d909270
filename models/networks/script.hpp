// A TorchScript module, exported from Python, as a network. Its code runs in LibTorch's interpreter, operator by
// operator as written: the optimizing executor stays off, because its results may differ between runs while it collects
// profiles.
#pragma once

#include "troupe/models/networks/network.hpp"

#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace torch::jit {
struct Module;
}  // namespace torch::jit

namespace troupe::models {

/// A file that is not a TorchScript module, has an incompatible version, or has nothing to train; what() names the
/// file, the reason and the fix. Also wraps failures of a module's own code, in one line.
struct script_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Loads the module from a file to the CPU. Any thread. Throws script_error.
torch::jit::Module load_script(const std::filesystem::path& path);

/// Returns the message of an exception of LibTorch or of TorchScript's interpreter, without the call trace, in one
/// line.
std::string reason_of(const std::exception& failure);

}  // namespace troupe::models
