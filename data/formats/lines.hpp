// Reads the lines of a text file of any size, plain or compressed with gzip, one at a time and in blocks, so that
// memory is bounded whatever the size of the file. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::files {
class input;
}

namespace troupe::data {

class lines {
 public:
  /// Maximum length of a line. Longer lines are rejected, because files that are not text have lines of any length.
  static constexpr std::size_t longest = std::size_t{16} << 20;

  /// Opens a file that the topology file names with `key`. Throws data_error if it cannot be read.
  lines(std::filesystem::path file, const std::string& key);
  ~lines();

  /// Returns the next line without its end (\n or \r\n), valid until the next call, or nothing at the end of the file.
  /// Throws data_error if a line is too long or not text, or the compressed data is damaged or truncated.
  std::optional<std::string_view> next();

  /// Throws data_error with the file, the number of the line that next() last returned or was reading, and `reason`.
  [[noreturn]] void fail(const std::string& reason) const;

  const std::filesystem::path& file() const { return file_; }

  /// Returns the number of bytes of its buffers; at most slightly more than `longest`.
  std::size_t memory() const;

 private:
  struct gzip;

  bool more();
  std::size_t read(char* into, std::size_t room);
  std::size_t read_file(void* into, std::size_t most);

  std::filesystem::path file_;
  std::unique_ptr<files::input> input_;
  std::unique_ptr<gzip> packed_;  // null: the file is plain
  std::vector<char> text_;
  std::size_t begin_{0}, end_{0};  // part of text_ that was read but not yet returned
  std::int64_t number_{0};
};

/// Returns part of a file for a message: in quotes, shortened if long, with bytes that are not printable as \xNN.
std::string quoted(std::string_view text);

/// Returns the number in `text`, in C's decimal notation, or nothing. Values that are too small become 0, values that
/// are too large become infinite.
std::optional<double> number_in(std::string_view text);

}  // namespace troupe::data
