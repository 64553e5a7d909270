// The checkpoint with which a recording begins, if the recorded run was continued from one. The results folder keeps
// it, in a folder of its own, because the checkpoints of the run are replaced.
#pragma once

#include "troupe/runtime/checkpoint/read_checkpoint.hpp"
#include "troupe/runtime/recording/deliveries_file.hpp"

#include <filesystem>
#include <optional>

namespace troupe::recording {

/// The folder with the checkpoint, in the results folder.
constexpr auto* beginning_folder = "recorded_from";

/// Keeps the checkpoint in `checkpoint`, or removes what an earlier recording has kept if that is empty, and notes it
/// in `about`. Throws std::runtime_error if it cannot be copied.
void keep_beginning(const std::filesystem::path& out, const std::filesystem::path& checkpoint, origin& about);

/// Returns the checkpoint with which a recording in `out` begins, or nothing if it begins with the run. Throws damaged.
std::optional<checkpoint::loaded_checkpoint> beginning_of(const std::filesystem::path& out, const origin& about);

}  // namespace troupe::recording
