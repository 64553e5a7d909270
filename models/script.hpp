// A TorchScript module, exported from Python, as a network. Its code runs in LibTorch's interpreter, operator by
// operator as written: the optimizing executor, whose results may differ from run to run while it learns, stays off.
#pragma once

#include "troupe/models/network.hpp"

#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace torch::jit {
struct Module;
}  // namespace torch::jit

namespace troupe::models {

/// A file that is no TorchScript module, of another version, or without anything to train; what() names the file, the
/// reason and the mend. Also what a module's own code fails with, in one line.
struct script_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Loads the module of a file, on the CPU. Any thread. Throws script_error.
torch::jit::Module load_script(const std::filesystem::path& path);

/// Returns what an exception of LibTorch or of TorchScript's interpreter says, without the trace of calls: one line.
std::string reason_of(const std::exception& failure);

}  // namespace troupe::models
