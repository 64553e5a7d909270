#include "troupe/runtime/support/appended_file.hpp"

#include "troupe/runtime/support/last_error.hpp"
#include "troupe/runtime/support/write_aside.hpp"

#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

namespace troupe {

namespace {

/// Appends bytes to a file. Returns how many were written, with the reason in errno if not all were.
std::size_t append(int file, std::string_view bytes) {
  std::size_t taken = 0;
  while (taken < bytes.size()) {
    const auto count = ::write(file, bytes.data() + taken, bytes.size() - taken);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;
    taken += static_cast<std::size_t>(count);
  }
  return taken;
}

/// Appends the content of `from` to `to`. Returns false if it cannot be written; what cannot be read is lost.
bool copy(int from, int to) {
  std::array<char, 1 << 16> block{};
  for (off_t at = 0;;) {
    const auto count = ::pread(from, block.data(), block.size(), at);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return true;
    if (append(to, {block.data(), static_cast<std::size_t>(count)}) < static_cast<std::size_t>(count)) return false;
    at += count;
  }
}

}  // namespace

appended_file::~appended_file() {
  if (file_ >= 0) ::close(file_);
}

bool appended_file::add(std::string_view piece) {
  if (waiting_.size() + piece.size() > options_.most_waiting) {
    ++dropped_;
    return false;
  }
  waiting_ += piece;
  return true;
}

void appended_file::open() {
  const auto how = O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | (options_.continues ? 0 : O_TRUNC);
  file_ = ::open(options_.path.c_str(), how, 0666);
  if (file_ < 0) throw write_error(options_.path, last_error());
}

/// Switches to the file that is now at the path if it is not the open one: the open file may have been removed or
/// replaced, or its file system may be gone.
void appended_file::follow_path() {
  struct stat ours {
  }, at_path{};
  const auto exists = ::stat(options_.path.c_str(), &at_path) == 0;
  if (!exists && errno != ENOENT) throw write_error(options_.path, last_error());
  if (exists && ::fstat(file_, &ours) == 0 && ours.st_dev == at_path.st_dev && ours.st_ino == at_path.st_ino) return;
  // A file that appears in between is followed at the next attempt; it may be our own, moved back.
  const int creates = exists ? 0 : O_CREAT | O_EXCL;
  const int other = ::open(options_.path.c_str(), O_RDWR | O_APPEND | O_CLOEXEC | creates, 0666);
  if (other < 0) throw write_error(options_.path, last_error());
  if (!exists && !copy(file_, other)) {
    const auto why = last_error();
    ::close(other);
    ::unlink(options_.path.c_str());
    throw write_error(options_.path, why);
  }
  ::close(std::exchange(file_, other));
}

void appended_file::flush() {
  if (file_ < 0)
    open();
  else
    follow_path();
  if (waiting_.empty()) return;
  struct stat before {};
  if (::fstat(file_, &before) != 0) throw write_error(options_.path, last_error());
  const auto taken = append(file_, waiting_);
  const auto why = last_error();
  if (taken == waiting_.size()) return waiting_.clear();
  const auto cut = ::ftruncate(file_, before.st_size) == 0;  // readers see whole pieces only
  if (!cut) waiting_.erase(0, taken);
  throw write_error(options_.path, why);
}

}  // namespace troupe
