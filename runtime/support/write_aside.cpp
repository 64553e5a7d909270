#include "troupe/runtime/support/write_aside.hpp"

#include <cerrno>
#include <fcntl.h>
#include <fstream>
#include <stdexcept>
#include <system_error>
#include <unistd.h>

namespace troupe {

void write_aside(const std::filesystem::path& path, std::string_view content) {
  auto aside = path;
  aside += ".tmp";
  const auto give_up = [&](const std::error_code& reason) {
    std::error_code ignored;
    std::filesystem::remove(aside, ignored);
    throw std::runtime_error("cannot write " + path.string() + ": " + reason.message());
  };
  errno = 0;
  std::ofstream out(aside, std::ios::binary | std::ios::trunc);
  out.write(content.data(), static_cast<std::streamsize>(content.size()));
  out.close();
  if (!out) give_up({errno != 0 ? errno : EIO, std::generic_category()});
  // Before it is renamed: otherwise a power failure may leave an empty file under the final name.
  const int file = ::open(aside.c_str(), O_WRONLY | O_CLOEXEC);
  const bool flushed = file >= 0 && ::fsync(file) == 0;
  const std::error_code reason{errno, std::generic_category()};
  if (file >= 0) ::close(file);
  if (!flushed) give_up(reason);
  std::error_code failed;
  std::filesystem::rename(aside, path, failed);
  if (failed) give_up(failed);
}

}  // namespace troupe
