// The file deliveries.bin of a recorded run: what each server and the coordinator took in, in order. docs/replay.md
// describes the format.
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

/// What a recording belongs to.
struct origin {
  std::string version;                           ///< Of Troupe.
  std::string topology;                          ///< Canonical text; see topology::canonical().
  std::map<std::string, std::string> digests{};  ///< Of inputs that the topology only names, such as the samples.
  bool operator==(const origin&) const = default;
};

/// One delivery, and the actor that took it in: 0 is the coordinator; servers have their ids.
struct entry {
  std::uint32_t actor{0};
  delivery what{};
  bool operator==(const entry&) const = default;
};

/// A recording as it was read.
struct contents {
  origin about;
  std::vector<entry> entries;
  bool complete{false};  ///< Whether the recorded run finished; otherwise the file may end anywhere.
};

/// The file is no recording, or its contents are damaged. The message gives the reason without the path.
struct damaged : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Returns the beginning of a file.
std::vector<std::byte> header_of(const origin& about);

/// Returns the number `index` of the blocks that follow. An empty one says that the recording is complete.
std::vector<std::byte> block_of(std::span<const entry> entries, std::uint64_t index);

/// Reads a whole file. A block that is cut off at the end is ignored. Throws damaged.
contents parse(std::span<const std::byte> bytes);

/// Reads the file at `path`. Throws damaged, and std::runtime_error with the path if it cannot be read.
contents read(const std::filesystem::path& path);

}  // namespace troupe::recording
