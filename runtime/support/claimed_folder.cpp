#include "troupe/runtime/support/claimed_folder.hpp"

#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

namespace troupe {

namespace fs = std::filesystem;

namespace {

/// Returns the names in a folder, sorted. A new file system has lost+found, and is empty.
std::vector<std::string> names_in(const fs::path& folder) {
  std::error_code failed;
  std::vector<std::string> names;
  for (fs::directory_iterator each(folder, failed), end; !failed && each != end; each.increment(failed))
    if (auto name = each->path().filename().string(); name != "lost+found") names.push_back(std::move(name));
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

held_folder::~held_folder() {
  if (file_ >= 0) ::close(file_);
}

bool held_folder::lock(const fs::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) throw std::system_error(errno, std::generic_category());
  // A file system without locks, such as some of clusters, protects from nothing, but is no reason to refuse it.
  if (::flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(file);
    return false;
  }
  if (file_ >= 0) ::close(file_);
  file_ = file;
  return true;
}

bool held_folder::is_at(const fs::path& path) const {
  struct stat ours {
  }, there{};
  return ::fstat(file_, &ours) == 0 && ::stat(path.c_str(), &there) == 0 && ours.st_dev == there.st_dev &&
         ours.st_ino == there.st_ino;
}

}  // namespace troupe
