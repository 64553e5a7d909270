// Zip archives whose entries are stored without compression, which is how PyTorch writes tensors and exported programs.
// Nothing in an archive is trusted: every offset and size is checked against the file, and every entry against its
// checksum when it is read.
#pragma once

#include "troupe/files/input.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>

namespace troupe::files {

/// A file that is not such an archive, or is damaged. what() is the reason, without the path.
struct zip_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// An archive that is open for reading. Any thread. Its entries together are no larger than the file.
class stored_zip {
 public:
  /// An entry: where its bytes are in the file, and their checksum.
  struct entry {
    std::uint64_t first{0}, bytes{0};
    std::uint32_t crc{0};
    bool is_stored{true};  ///< Whether it can be read: it is neither compressed nor encrypted.
  };

  /// Reads the list of entries. Throws files::unreadable and zip_error.
  explicit stored_zip(const std::filesystem::path& path);

  /// Returns all entries by name.
  const std::map<std::string, entry>& entries() const { return entries_; }

  /// Returns the entry of this name, or null.
  const entry* find(const std::string& name) const;

  /// Returns the size of the file.
  std::uint64_t bytes() const { return file_.bytes(); }

  /// Copies the bytes of an entry to `into`. Throws files::unreadable, and zip_error if it is not stored or does not
  /// match its checksum.
  void read(const std::string& name, const entry& which, void* into) const;

  /// Returns the bytes of an entry. Throws as read() does, and zip_error if the archive has none of this name.
  std::string text(const std::string& name) const;

 private:
  input file_;
  std::map<std::string, entry> entries_;
};

}  // namespace troupe::files
