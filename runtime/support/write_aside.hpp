// Atomic writing of files: a file is written under a temporary name and then renamed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

namespace troupe {

/// A file that could not be written. The message names the path and the reason given by the system.
struct write_error : std::runtime_error {
  write_error(const std::filesystem::path& path, std::error_code why)
      : std::runtime_error("cannot write " + path.string() + ": " + why.message()), reason(why) {}
  std::error_code reason;
};

/// Suffix of temporary names. No other program uses it, so a file with such a name is one of ours.
constexpr auto* aside_suffix = ".troupe-tmp";

/// The users that may read a file.
enum class readers : std::uint8_t {
  by_default,  ///< As the settings of the process say (umask).
  owner,       ///< Only its owner.
};

/// Writes `content` to `path`, replacing an existing file. Readers see the old file or the new one, never a part of it,
/// even after a power failure. Throws write_error.
void write_aside(const std::filesystem::path& path, std::string_view content, readers who = readers::by_default);

}  // namespace troupe
