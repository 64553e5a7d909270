#include "troupe/runtime/support/folder_lock.hpp"

#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <fcntl.h>
#include <system_error>
#include <unistd.h>

namespace troupe {

held_folder::~held_folder() {
  if (file_ >= 0) ::close(file_);
}

bool held_folder::lock(const std::filesystem::path& path) {
  return take(path, LOCK_EX | LOCK_NB);
}

void held_folder::lock_when_free(const std::filesystem::path& path, void (*waiting)(const std::string&)) {
  if (lock(path)) return;
  if (waiting) waiting(path.string() + ": another process is writing into this folder; waiting for it");
  take(path, LOCK_EX);
}

bool held_folder::take(const std::filesystem::path& path, int how) {
  const int file = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0)
    throw std::system_error(errno, std::generic_category(), path.string() + ": the folder cannot be locked");
  int failed = 0;
  do failed = ::flock(file, how) == 0 ? 0 : errno;
  while (failed == EINTR);
  if (failed == EWOULDBLOCK) {
    ::close(file);
    return false;
  }
  if (file_ >= 0) ::close(file_);
  file_ = file;
  return true;
}

bool held_folder::is_at(const std::filesystem::path& path) const {
  struct stat ours {
  }, at_path{};
  return ::fstat(file_, &ours) == 0 && ::stat(path.c_str(), &at_path) == 0 && ours.st_dev == at_path.st_dev &&
         ours.st_ino == at_path.st_ino;
}

}  // namespace troupe
