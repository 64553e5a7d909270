// Finds and reads checkpoints. Nothing in them is trusted.
#pragma once

#include "troupe/algorithms/messages/run_state.hpp"
#include "troupe/runtime/checkpoint/manifest.hpp"

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

namespace troupe::checkpoint {

/// A checkpoint whose files have all been verified.
struct loaded_checkpoint {
  std::filesystem::path folder;
  manifest about;
  std::shared_ptr<const run_state> state;
};

/// Reads the manifest of a checkpoint, without verifying the other files. Throws damaged.
manifest read_manifest(const std::filesystem::path& folder);

/// Verifies the size and digest of every file of a checkpoint, and then reads it. Throws damaged.
loaded_checkpoint read_checkpoint(const std::filesystem::path& folder);

/// Reads the newest intact checkpoint in the results folder `out`. Damaged ones are passed over and reported by `say`,
/// with path and reason. Throws input_error if there is no intact one.
loaded_checkpoint read_newest(const std::filesystem::path& out, const std::function<void(const std::string&)>& say);

}  // namespace troupe::checkpoint
