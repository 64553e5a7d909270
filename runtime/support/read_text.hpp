// Reading of whole files.
#pragma once

#include <filesystem>
#include <string>

namespace troupe {

/// Returns the bytes of a file. Throws std::runtime_error, naming the path.
std::string read_text(const std::filesystem::path& path);

}  // namespace troupe
