// Loads plug-ins, which register kinds that topology files can then name.
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace troupe::plugins {

/// Loads a plug-in and lets it register its kinds; does nothing if the process has loaded this file. Its code stays in
/// the process to its end. Call it while no other thread reads the kinds. Throws input_error, naming the file.
void load(const std::filesystem::path& file);

/// Returns the SHA-256 of each plug-in of the process by its file name.
const std::map<std::string, std::string>& loaded();

}  // namespace troupe::plugins
