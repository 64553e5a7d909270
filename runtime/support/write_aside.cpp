#include "troupe/runtime/support/write_aside.hpp"

#include "troupe/runtime/support/last_error.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

namespace troupe {

namespace {

/// Writes a new file and flushes it to the disk. If that fails, removes the file and returns the error.
std::error_code write_new(const std::filesystem::path& path, std::string_view content, readers who) {
  if (who == readers::owner) ::unlink(path.c_str());  // an existing file would keep its mode
  const int file =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, who == readers::owner ? 0600 : 0666);
  if (file < 0) return last_error();
  std::error_code failed;
  constexpr std::size_t most = 1u << 30u;
  while (!content.empty() && !failed) {
    const auto count = ::write(file, content.data(), std::min(content.size(), most));
    if (count >= 0)
      content.remove_prefix(static_cast<std::size_t>(count));
    else if (errno != EINTR)
      failed = last_error();
  }
  // Flush before the file is renamed: otherwise, a power failure may leave an empty file under the final name.
  if (!failed && ::fsync(file) != 0) failed = last_error();
  if (::close(file) != 0 && !failed) failed = last_error();
  if (failed) ::unlink(path.c_str());
  return failed;
}

}  // namespace

void write_aside(const std::filesystem::path& path, std::string_view content, readers who) {
  auto aside = path;
  aside += aside_suffix;
  if (const auto failed = write_new(aside, content, who)) throw write_error(path, failed);
  std::error_code failed;
  std::filesystem::rename(aside, path, failed);
  if (!failed) return;
  ::unlink(aside.c_str());
  throw write_error(path, failed);
}

}  // namespace troupe
