// The file actors.json in a results folder: where guests of the same host reach the run, and the secret with which they
// identify themselves.
#pragma once

#include "troupe/net/channels/endpoint.hpp"
#include "troupe/net/security/secret.hpp"

#include <filesystem>
#include <string>

namespace troupe::guests {

constexpr auto* entrance_file_name = "actors.json";

struct entrance_file {
  endpoint address;
  security::shared_secret secret{};
};

/// Returns the text of the file.
std::string text_of(const endpoint& address, const std::string& secret);

/// Reads the file of a results folder. Throws input_error if there is none, or if it is not one.
entrance_file read_entrance(const std::filesystem::path& folder);

}  // namespace troupe::guests
