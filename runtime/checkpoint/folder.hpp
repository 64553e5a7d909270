// Where checkpoints are: OUT/checkpoints/step-000000000561, one folder each.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace troupe::checkpoint {

/// Returns the folder of the checkpoints of a run with the results folder `out`.
std::filesystem::path folder_of(const std::filesystem::path& out);

/// Returns the name of a checkpoint, such as "step-000000000561".
std::string name_of(std::uint64_t step);

/// Returns the name under which a checkpoint is written before it is renamed.
std::string unfinished_name_of(std::uint64_t step);

struct found_checkpoint {
  std::uint64_t step{0};
  std::filesystem::path path;
};

/// Returns all checkpoints in `out`, recognised by their names alone, newest first.
std::vector<found_checkpoint> checkpoints_in(const std::filesystem::path& out);

/// Returns the folders in `out` that interrupted writes have left.
std::vector<std::filesystem::path> unfinished_in(const std::filesystem::path& out);

}  // namespace troupe::checkpoint
