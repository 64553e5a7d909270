#include "troupe/files/input.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <limits>
#include <poll.h>
#include <unistd.h>
#include <utility>

namespace troupe::files {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& path, int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      throw missing(path, "no such file", "check the path");
    case ELOOP:
      throw irregular(path, "the path is a link to itself, or a chain of too many links, not a regular file",
                      "name a regular file");
    case EACCES:
    case EPERM:
      throw unreadable(path, "cannot read the file", "check its permissions");
    default:
      throw unreadable(path, std::string("cannot read the file: ") + std::strerror(error), "check the path");
  }
}

/// Returns a description of what stat(2) found, which is not a regular file.
std::string irregularity_of(const struct stat& found) {
  const std::string kind = S_ISDIR(found.st_mode)    ? "folder"
                           : S_ISFIFO(found.st_mode) ? "pipe"
                           : S_ISSOCK(found.st_mode) ? "socket"
                           : S_ISLNK(found.st_mode)  ? "link"
                                                     : "device";
  return "this is a " + kind + ", not a regular file";
}

/// Throws if what stat(2) found is not a regular file.
void require_regular(const fs::path& path, const struct stat& found) {
  if (S_ISREG(found.st_mode)) return;
  throw irregular(path, irregularity_of(found), S_ISDIR(found.st_mode) ? "name a file in it" : "name a regular file");
}

struct stat looked_at(const fs::path& path, links how) {
  struct stat status {};
  if ((how == links::followed ? ::stat : ::lstat)(path.c_str(), &status) != 0) refuse(path, errno);
  return status;
}

int opened(const fs::path& path, links how) {
  const int flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (how == links::refused ? O_NOFOLLOW : 0);
  const int descriptor = ::open(path.c_str(), flags);
  if (descriptor < 0) refuse(path, errno);
  return descriptor;
}

[[noreturn]] void refuse_as_too_large(const fs::path& path, std::uint64_t most) {
  constexpr std::uint64_t mebibyte = 1u << 20u, gibibyte = 1u << 30u;
  throw unreadable(path,
                   "the file is larger than " + (most % gibibyte == 0   ? std::to_string(most / gibibyte) + " GiB"
                                                 : most % mebibyte == 0 ? std::to_string(most / mebibyte) + " MiB"
                                                                        : std::to_string(most) + " bytes"),
                   "name a smaller file");
}

/// Appends what `read` returns, piece by piece, until it returns nothing.
template <class Read>
std::string gathered(const fs::path& path, std::uint64_t expected, std::uint64_t most, Read read) {
  constexpr std::size_t least = std::size_t{1} << 16;
  std::string text;
  for (std::size_t done = 0;;) {
    // One byte more than expected: a file that has not grown is read at once.
    const auto wanted = std::max<std::size_t>(least, static_cast<std::size_t>(std::min(expected, most)) + 1);
    if (text.size() - done < least) text.resize(std::max(wanted, text.size() + text.size() / 2 + least));
    const auto count = read(text.data() + done, text.size() - done);
    done += count;
    if (done > most) refuse_as_too_large(path, most);
    if (count > 0) continue;
    text.resize(done);
    return text;
  }
}

class descriptor_closed {
 public:
  explicit descriptor_closed(int number) : number_(number) {}
  descriptor_closed(const descriptor_closed&) = delete;
  descriptor_closed& operator=(const descriptor_closed&) = delete;
  ~descriptor_closed() { ::close(number_); }

 private:
  int number_;
};

std::string read_pipe(const fs::path& path, std::uint64_t most) {
  using std::chrono::steady_clock;
  const int pipe = opened(path, links::followed);
  const descriptor_closed closed{pipe};
  struct stat status {};
  if (::fstat(pipe, &status) != 0) refuse(path, errno);
  if (!S_ISFIFO(status.st_mode)) throw irregular(path, "the file has changed while it was opened", "try again");
  const auto deadline = steady_clock::now() + std::chrono::seconds(3);
  bool has_writer = false;
  return gathered(path, 0, most, [&](char* into, std::size_t room) -> std::size_t {
    constexpr int milliseconds = 20;
    for (;;) {
      const auto count = ::read(pipe, into, room);
      if (count > 0) has_writer = true;
      if (count > 0 || (count == 0 && has_writer)) return static_cast<std::size_t>(count);
      if (count < 0 && errno != EAGAIN && errno != EINTR) refuse(path, errno);
      if (count < 0 && errno == EAGAIN) has_writer = true;  // the writer has not written yet
      if (!has_writer && steady_clock::now() > deadline)
        throw unreadable(path, "no program writes to this pipe", "name a file, or a pipe to which a program writes");
      pollfd wait{.fd = pipe, .events = POLLIN, .revents = 0};
      ::poll(&wait, 1, has_writer ? 1000 : milliseconds);
    }
  });
}

}  // namespace

input::input(const fs::path& path, links how) : path_(path) {
  // Checked before the file is opened, because opening a device can have side effects.
  require_regular(path, looked_at(path, how));
  descriptor_ = opened(path, how);
  try {
    if (::fstat(descriptor_, &about_) != 0) refuse(path, errno);
    require_regular(path, about_);
  } catch (const unreadable&) {
    ::close(descriptor_);
    throw;
  }
}

input::~input() {
  ::close(descriptor_);
}

std::size_t input::read(void* into, std::size_t most) {
  const auto count = read_at(offset_, into, most);
  offset_ += count;
  return count;
}

std::size_t input::read_at(std::uint64_t offset, void* into, std::size_t most) const {
  std::size_t done = 0;
  constexpr auto last = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());
  while (done < most && offset <= last - done) {  // a damaged file may contain any offset
    const auto count =
        ::pread(descriptor_, static_cast<char*>(into) + done, most - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) refuse(path_, errno);
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  return done;
}

std::string read_all(const fs::path& path, std::uint64_t most) {
  input file{path};
  if (file.bytes() > most) refuse_as_too_large(path, most);
  return gathered(path, file.bytes(), most, [&](char* into, std::size_t room) { return file.read(into, room); });
}

std::optional<std::string> irregularity(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode)) return std::nullopt;
  return irregularity_of(status);
}

std::string read_all_of_pipe_or_file(const fs::path& path, std::uint64_t most) {
  return S_ISFIFO(looked_at(path, links::followed).st_mode) ? read_pipe(path, most) : read_all(path, most);
}

}  // namespace troupe::files
