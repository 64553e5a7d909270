// Atomic writing of files: a file is written under a temporary name and then renamed.
#pragma once

#include <filesystem>
#include <string_view>

namespace troupe {

/// Writes `content` to `path`, replacing an existing file. Readers see the old file or the new one, never a part of it,
/// even after a power failure.
/// Throws std::runtime_error, naming the path and the reason given by the system.
void write_aside(const std::filesystem::path& path, std::string_view content);

}  // namespace troupe
