// The one place where files are opened for reading. What a path leads to is not trusted: only regular files are opened,
// so that nothing waits for a pipe, disturbs a device or reads without end, and no more is read than the caller allows.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>

namespace troupe::files {

/// A file that cannot be read. what() is "PATH: reason; fix".
class unreadable : public std::runtime_error {
 public:
  unreadable(const std::filesystem::path& path, std::string reason, std::string fix)
      : std::runtime_error(path.string() + ": " + reason + "; " + fix), reason_(std::move(reason)) {}

  /// Returns what() without the path and the fix.
  const std::string& reason() const { return reason_; }

 private:
  std::string reason_;
};

/// A file that does not exist.
class missing : public unreadable {
 public:
  using unreadable::unreadable;
};

/// A path to something other than a regular file.
class irregular : public unreadable {
 public:
  using unreadable::unreadable;
};

enum class links { followed, refused };

/// A regular file that is open for reading. One thread at a time, except for read_at().
class input {
 public:
  /// Throws `missing`, `irregular` or `unreadable`. `how` applies to a link in the last part of the path.
  explicit input(const std::filesystem::path& path, links how = links::followed);
  input(const input&) = delete;
  input& operator=(const input&) = delete;
  ~input();

  /// Reads the next bytes, at most `most`; fewer only at the end of the file. Throws `unreadable`.
  std::size_t read(void* into, std::size_t most);

  /// Reads bytes from `offset` on, at most `most`; fewer only at the end of the file. Throws `unreadable`. Any thread.
  std::size_t read_at(std::uint64_t offset, void* into, std::size_t most) const;

  /// Moves to this byte of the file, for read().
  void seek(std::uint64_t offset) { offset_ = offset; }

  /// Returns the size that the file had when it was opened.
  std::uint64_t bytes() const { return static_cast<std::uint64_t>(about_.st_size); }

  /// Returns what fstat(2) reported when the file was opened.
  const struct stat& about() const { return about_; }

  const std::filesystem::path& path() const { return path_; }
  int descriptor() const { return descriptor_; }

 private:
  std::filesystem::path path_;
  int descriptor_{-1};
  struct stat about_ {};
  std::uint64_t offset_{0};
};

/// Limit for files that are read whole and have no smaller limit.
constexpr std::uint64_t bytes_at_most = std::uint64_t{1} << 32;

/// Returns the bytes of a regular file. Throws `missing`, `irregular` or `unreadable`, also if there are more than
/// `most`.
std::string read_all(const std::filesystem::path& path, std::uint64_t most = bytes_at_most);

/// Returns a sentence such as "this is a pipe, not a regular file" if the path leads, possibly through links, to
/// something that is not a regular file and must not be replaced by one.
std::optional<std::string> irregularity(const std::filesystem::path& path);

/// Returns the bytes of a regular file or a pipe, such as one that a shell opens for <(command). Throws `missing`,
/// `irregular` or `unreadable`, also if there are more than `most`, or no program opens the pipe for writing within
/// three seconds.
std::string read_all_of_pipe_or_file(const std::filesystem::path& path, std::uint64_t most);

}  // namespace troupe::files
