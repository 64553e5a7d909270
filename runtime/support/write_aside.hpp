// Files that are either whole or not there: written beside their place and renamed into it.
#pragma once

#include <filesystem>
#include <string_view>

namespace troupe {

/// Writes `content` to `path`, replacing what was there. Readers see the old file or the new one, never a part.
/// Throws std::runtime_error naming the path and the system's reason.
void write_aside(const std::filesystem::path& path, std::string_view content);

}  // namespace troupe
