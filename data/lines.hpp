// The lines of a text file of any size, plain or compressed by gzip, one at a time: read in blocks, so that memory is
// bounded whatever the file is. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::data {

class lines {
 public:
  /// A longer line is refused: what is not text has lines of any length.
  static constexpr std::size_t longest = std::size_t{16} << 20;

  /// Opens a file that the topology file names by `key`. Throws data_error where there is none to read.
  lines(std::filesystem::path file, const std::string& key);
  ~lines();

  /// Returns the next line without its end (\n or \r\n), valid until the next call; nothing at the end of the file.
  /// Throws data_error where a line is too long or not text, or the compressed data is damaged or truncated.
  std::optional<std::string_view> next();

  /// Throws data_error: the file, the line that next() returned last or was reading, and `reason`.
  [[noreturn]] void fail(const std::string& reason) const;

  const std::filesystem::path& file() const { return file_; }

  /// Bytes of memory that the buffers take; at most `longest` and a little.
  std::size_t memory() const;

 private:
  struct gzip;

  bool more();
  std::size_t read(char* into, std::size_t room);

  std::filesystem::path file_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream_;
  std::unique_ptr<gzip> packed_;  // null: the file is plain
  std::vector<char> text_;
  std::size_t begin_{0}, end_{0};  // what of text_ was read and not handed out
  std::int64_t number_{0};
};

/// Returns a piece of a file for a message: in quotes, cut where it is long, bytes that are not letters as \xNN.
std::string quoted(std::string_view text);

/// Returns the number that `text` is in C's decimal notation, else nothing. What is too small is 0; what is too large,
/// infinite.
std::optional<double> number_in(std::string_view text);

}  // namespace troupe::data
