#include "troupe/runtime/support/folder_lock.hpp"

#include <sys/file.h>

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <stdexcept>
#include <unistd.h>

namespace troupe {

std::shared_ptr<void> lock_folder(const std::filesystem::path& folder, void (*waiting)(const std::string&)) {
  const auto fail = [&] {
    throw std::runtime_error(folder.string() + ": cannot lock the folder: " + std::strerror(errno));
  };
  const int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) fail();
  std::shared_ptr<void> held(nullptr, [file](void*) { ::close(file); });
  if (::flock(file, LOCK_EX | LOCK_NB) == 0) return held;
  if (errno == EWOULDBLOCK && waiting)
    waiting(folder.string() + ": another process is writing into this folder; waiting for it");
  while (::flock(file, LOCK_EX) != 0)
    if (errno != EINTR) fail();
  return held;
}

}  // namespace troupe
