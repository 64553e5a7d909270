// SHA-256 of text and files, in hexadecimal.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace troupe {

/// A digest that is computed piece by piece.
class sha256_digest {
 public:
  /// Throws std::runtime_error if this build of OpenSSL does not provide SHA-256.
  sha256_digest();
  void add(std::string_view bytes);
  /// Returns 64 hexadecimal digits, lower case. Nothing may be added afterwards.
  std::string finish();

 private:
  std::shared_ptr<void> state_;
};

std::string sha256_of(std::string_view bytes);

/// Returns the digest of the first `limit` bytes of a file, by default of all of them, or nothing if it cannot be read
/// or is shorter.
std::optional<std::string> sha256_of_file(const std::filesystem::path& path, std::optional<std::uint64_t> limit = {});

}  // namespace troupe
