// A file that grows piece by piece. Pieces that cannot be written yet wait in memory. Not safe for use by several
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
    bool continues{false};                   ///< Whether to append to an existing file rather than start an empty one.
    std::size_t most_waiting{64ull << 20u};  ///< How many bytes may wait; later pieces are then dropped.
  };

  /// Does not open the file yet.
  explicit appended_file(options how) : options_(std::move(how)) {}
  ~appended_file();
  appended_file(const appended_file&) = delete;
  appended_file& operator=(const appended_file&) = delete;

  /// Adds a piece, which waits for flush(). Returns false, and counts the piece as dropped, if too much is waiting
  /// already.
  bool add(std::string_view piece);

  /// Adds the last piece, regardless of how much is waiting.
  void add_last(std::string_view piece) { waiting_ += piece; }

  /// Writes the waiting pieces. The file then ends with a whole piece, even if the disk becomes full. A file that was
  /// removed is created again with its previous content. Throws write_error; what was not written is still waiting.
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
