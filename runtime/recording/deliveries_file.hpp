// The file deliveries.bin of a recorded run: the deliveries to each server and to the coordinator, in order.
// docs/replay.md describes the format.
#pragma once

#include "troupe/actors/replay/deliveries.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe::recording {

constexpr auto file_name = "deliveries.bin";

/// The run and the inputs that a recording belongs to.
struct origin {
  std::string version;                           ///< Version of Troupe that wrote the file.
  std::string topology;                          ///< Canonical text; see topology::canonical().
  std::map<std::string, std::string> digests{};  ///< Digests of inputs that the topology only names, such as samples.
  bool operator==(const origin&) const = default;
};

/// One delivery, and the actor that received it: 0 is the coordinator; servers have their ids.
struct entry {
  std::uint32_t actor{0};
  delivery what{};
  bool operator==(const entry&) const = default;
};

/// The contents of a recording.
struct contents {
  origin about;
  std::vector<entry> entries;
  bool complete{false};  ///< Whether the recorded run finished; otherwise the file may end anywhere.
};

/// Thrown if the file is not a recording, or if its contents are damaged. The message gives the reason without the
/// path.
struct damaged : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Returns the bytes with which a file begins.
std::vector<std::byte> header_of(const origin& about);

/// Returns the block with this number, from 1, of those that follow the header. An empty block marks the end of a
/// complete recording.
std::vector<std::byte> block_of(std::span<const entry> entries, std::uint64_t index);

/// Reads a whole file. A block that is cut off at the end is ignored. Throws damaged.
contents parse(std::span<const std::byte> bytes);

/// Reads the file at `path`. Throws damaged, and std::runtime_error with the path if it cannot be read.
contents read(const std::filesystem::path& path);

}  // namespace troupe::recording
