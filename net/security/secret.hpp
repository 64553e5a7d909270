// The secret with which the nodes of one host identify themselves to each other.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <string>

namespace troupe::security {

/// 32 random bytes.
using shared_secret = std::array<std::byte, 32>;

/// The environment variable with the secret of a run, as 64 hexadecimal digits.
constexpr auto* secret_variable = "TROUPE_SECRET";

/// Returns a new secret in hexadecimal digits.
std::string make_secret();

/// Parses a secret. Throws input_error, naming `from`, if the text is not one.
shared_secret parse_secret(const std::string& text, const std::string& from);

/// Reads the secret in this file. Creates the file with mode 0600 if it is missing. Several processes may do this at
/// once, and all get the same secret. Throws input_error if the file cannot be created, or if another user owns it or
/// may read it.
shared_secret secret_in(const std::filesystem::path& file);

}  // namespace troupe::security
