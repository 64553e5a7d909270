// Keeps two processes from writing into one folder at the same time.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

namespace troupe {

/// Locks a folder for this process, for as long as what is returned exists. Waits for another process that has it;
/// calls `waiting` first, if that is given. Throws std::runtime_error if the folder cannot be opened.
std::shared_ptr<void> lock_folder(const std::filesystem::path& folder, void (*waiting)(const std::string&) = nullptr);

}  // namespace troupe
