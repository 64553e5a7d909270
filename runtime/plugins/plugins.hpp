// Loads plug-ins, which register kinds that topology files can then name.
#pragma once

#include <filesystem>
#include <string>

namespace troupe::plugins {

/// Loads a plug-in and lets it register its kinds. If the process has loaded this file before, does nothing or fails as
/// it did then. Its code stays in the process to its end. Call it while no other thread reads the kinds. Throws
/// input_error, naming the file.
void load(const std::filesystem::path& file);

/// Returns the SHA-256 of a plug-in that the process has loaded, in hexadecimal, or "".
std::string digest_of(const std::filesystem::path& file);

}  // namespace troupe::plugins
