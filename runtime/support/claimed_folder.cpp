#include "troupe/runtime/support/claimed_folder.hpp"

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

namespace troupe {

namespace fs = std::filesystem;

namespace {

/// Returns the names in a folder, sorted, without the lost+found of a new file system.
std::vector<std::string> names_in(const fs::path& folder) {
  std::error_code failed;
  std::vector<std::string> names;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed))
    if (auto name = entry->path().filename().string(); name != "lost+found") names.push_back(std::move(name));
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

claim claim_of(const fs::path& folder, const std::string& marker) {
  std::error_code failed;
  if (fs::symlink_status(folder / marker, failed).type() == fs::file_type::regular) return claim::ours;
  return names_in(folder).empty() ? claim::free : claim::foreign;
}

std::string foreign_text(const fs::path& folder, const std::string& marker, const std::string& what) {
  const auto names = names_in(folder);
  auto text = "the folder is not that of a " + what + ": it contains ";
  constexpr std::size_t shown = 2;
  for (std::size_t i = 0; i < std::min(names.size(), shown); ++i)
    text += (i == 0 ? "" : names.size() == 2 ? " and " : ", ") + names[i];
  if (names.size() > shown) text += " and " + std::to_string(names.size() - shown) + " more";
  return text + ", but no " + marker +
         "; choose an empty folder with --out, or add --overwrite, which replaces the files that a " + what +
         " writes and keeps all others";
}

}  // namespace troupe
