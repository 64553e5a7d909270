#include "troupe/runtime/support/durable_files.hpp"

#include "troupe/runtime/support/last_error.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <stdexcept>
#include <string>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace troupe {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void give_up(const std::string& verb, const fs::path& path, std::error_code reason) {
  throw std::runtime_error("cannot " + verb + " " + path.string() + ": " + reason.message());
}

/// An open file, closed at the end.
class open_file {
 public:
  open_file(const fs::path& path, const char* verb, int flags)
      : path_(path), verb_(verb), file_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    if (file_ < 0) fail();
  }
  ~open_file() {
    if (file_ >= 0) ::close(file_);
  }
  open_file(const open_file&) = delete;
  open_file& operator=(const open_file&) = delete;

  void write(std::string_view bytes) {
    constexpr std::size_t most = 1u << 30u;
    while (!bytes.empty()) {
      const auto count = ::write(file_, bytes.data(), std::min(bytes.size(), most));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail();
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
  }

  void sync() {
    if (::fsync(file_) != 0) fail();
  }

  void close() {
    if (::close(std::exchange(file_, -1)) != 0) fail();
  }

 private:
  [[noreturn]] void fail() const { give_up(verb_, path_, last_error()); }

  fs::path path_;
  const char* verb_;
  int file_;
};

}  // namespace

void durable_files::make_folder(const fs::path& path) {
  std::error_code failed;
  fs::create_directory(path, failed);
  if (failed) give_up("create", path, failed);
}

void durable_files::write(const fs::path& path, const std::vector<std::string_view>& pieces) {
  open_file file{path, "write", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW};
  for (const auto piece : pieces) file.write(piece);
  file.sync();
  file.close();
}

void durable_files::sync(const fs::path& path) {
  open_file{path, "flush", O_RDONLY}.sync();
}

void durable_files::link(const fs::path& from, const fs::path& to) {
  std::error_code failed;
  fs::create_hard_link(from, to, failed);
  if (!failed) return;
  failed.clear();
  fs::copy_file(from, to, failed);
  if (failed) give_up("copy " + from.string() + " to", to, failed);
}

void durable_files::replace(const fs::path& from, const fs::path& to) {
  std::error_code failed;
  if (fs::exists(to, failed)) {
    const auto exchanged = renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0;
    if (exchanged) return remove(from);
    remove(to);
  }
  fs::rename(from, to, failed);
  if (failed) give_up("rename " + from.string() + " to", to, failed);
}

void durable_files::remove(const fs::path& path) {
  std::error_code failed;
  fs::remove_all(path, failed);
  if (failed) give_up("remove", path, failed);
}

}  // namespace troupe
