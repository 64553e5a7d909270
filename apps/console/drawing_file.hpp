// Files that commands draw.
#pragma once

#include <filesystem>
#include <string>

namespace troupe::apps {

/// Throws input_error if a file that would be replaced is `topology` itself, or is not a drawing of Troupe and
/// `overwrite` is not set. A drawing of Troupe can be replaced without `overwrite`.
void check_replaceable(const std::filesystem::path& drawing, const std::filesystem::path& topology, bool overwrite);

/// Writes a drawing and creates the folders that contain it. Throws input_error.
void write_drawing(const std::filesystem::path& drawing, const std::string& content);

}  // namespace troupe::apps
