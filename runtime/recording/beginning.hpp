// The checkpoint with which a recording begins, if the recorded run was continued from one. It is kept in its own
// folder within the results folder, because the checkpoints of the run are replaced.
#pragma once

#include "troupe/runtime/checkpoint/read_checkpoint.hpp"
#include "troupe/runtime/recording/deliveries_file.hpp"

#include <filesystem>
#include <optional>

namespace troupe::recording {

/// The folder with the checkpoint, in the results folder.
constexpr auto* beginning_folder = "recorded_from";

/// Removes what an earlier recording has kept. Unless `checkpoint` is empty, keeps the checkpoint at this path and
/// notes its digest in `about`. Throws std::runtime_error if it cannot be copied.
void keep_beginning(const std::filesystem::path& out, const std::filesystem::path& checkpoint, origin& about);

/// Returns the checkpoint with which a recording in `out` begins, or nothing if it begins with the run. Throws damaged.
std::optional<checkpoint::loaded_checkpoint> beginning_of(const std::filesystem::path& out, const origin& about);

}  // namespace troupe::recording
