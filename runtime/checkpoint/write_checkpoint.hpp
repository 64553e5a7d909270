// Writes checkpoints.
#pragma once

#include "troupe/algorithms/messages/run_state.hpp"
#include "troupe/runtime/checkpoint/manifest.hpp"
#include "troupe/runtime/support/durable_files.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>

namespace troupe::checkpoint {

/// The file with the best weights, in the results folder and in a checkpoint.
constexpr auto* best_weights = "model_best.safetensors";

/// Writes a checkpoint to the results folder `out`, including the best weights that are there, and then removes all but
/// the newest `keep` ones. Checkpoints of later steps are removed as well: the run was continued from an earlier one.
/// `about` describes the run; its step, files and actors are filled in. Throws std::runtime_error with the path and the
/// reason; the previous checkpoints are then intact.
void write_checkpoint(const std::filesystem::path& out, const run_state& state, manifest about, std::size_t keep,
                      durable_files& files);

/// Adds a checkpoint whose files `fill` writes into the empty folder that it is given, and then removes older and later
/// ones like write_checkpoint(). If anything throws, the previous checkpoints are intact.
void add_checkpoint(const std::filesystem::path& out, std::uint64_t step, std::size_t keep, durable_files& files,
                    const std::function<void(const std::filesystem::path& folder)>& fill);

}  // namespace troupe::checkpoint
