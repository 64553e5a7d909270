// A TorchScript module, exported from Python, as a network. Its code runs in LibTorch's interpreter, operator by
// operator as written: the optimizing executor stays off, because its results may differ between runs while it collects
// profiles.
#pragma once

#include <filesystem>

namespace torch::jit {
struct Module;
}  // namespace torch::jit

namespace troupe::models {

/// Loads the module from a file to the CPU. Any thread. Throws file_error.
torch::jit::Module load_script(const std::filesystem::path& path);

}  // namespace troupe::models
