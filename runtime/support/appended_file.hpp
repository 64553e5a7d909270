// A file that grows while something happens. What cannot be written yet waits in memory. Not safe for use by several
// threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace troupe {

class appended_file {
 public:
  struct options {
    std::filesystem::path path{};
    bool continues{false};                   ///< Whether the file goes on, rather than beginning empty.
    std::size_t most_waiting{64ull << 20u};  ///< How many bytes may wait; later pieces are then dropped.
  };

  /// Opens nothing yet.
  explicit appended_file(options how) : options_(std::move(how)) {}
  ~appended_file();
  appended_file(const appended_file&) = delete;
  appended_file& operator=(const appended_file&) = delete;

  /// Adds a piece, which waits for flush(). Returns false, and counts it, if too much is waiting already.
  bool add(std::string_view piece);

  /// Adds a piece however much is waiting: the last one.
  void add_last(std::string_view piece) { waiting_ += piece; }

  /// Writes what is waiting; the file then ends with a whole piece, also if the disk becomes full. A file that has been
  /// removed is made again, with what it had. Throws write_error; everything that was not written is still waiting.
  void flush();

  const std::filesystem::path& path() const { return options_.path; }

  /// Returns the number of pieces that were dropped.
  std::uint64_t dropped() const { return dropped_; }

 private:
  void open();
  void follow_path();

  options options_;
  int file_{-1};
  std::string waiting_;
  std::uint64_t dropped_{0};
};

}  // namespace troupe
