// A file that is mapped into memory for reading and that other programs may write or cut off in the meantime. Neither
// ends the process: bytes that are gone read as zeros, and the next check reports that the file has changed. Readers
// must expect any bytes and copy what they rely on (see checked_rows).
#pragma once

#include "troupe/files/input.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>

namespace troupe::data {

/// A regular file that is mapped into memory. Any thread.
class mapped_file {
 public:
  /// Maps a regular file. Throws files::unreadable, also if it is empty or too many files are mapped.
  explicit mapped_file(const std::filesystem::path& path);
  mapped_file(const mapped_file&) = delete;
  mapped_file& operator=(const mapped_file&) = delete;
  ~mapped_file();

  /// Returns the file that this address is mapped from, or null.
  static const mapped_file* of(const void* address);

  const char* at(std::size_t offset) const { return begin_ + offset; }
  std::size_t bytes() const { return bytes_; }

  /// Lets the kernel reclaim the memory; bytes that are accessed again are read from the file again.
  void let_go() const;

  /// Throws data_error if the file is not as it was when it was mapped. Takes less than a microsecond.
  void require_unchanged() const;

  /// Throws data_error, which states that the file was changed.
  [[noreturn]] void fail_as_changed() const;

 private:
  files::input file_;
  const char* begin_{nullptr};
  std::size_t bytes_{0};
  std::size_t slot_{0};  ///< Index in the table of mappings.
};

}  // namespace troupe::data
