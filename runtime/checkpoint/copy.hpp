// Copies of checkpoints that a second node keeps (checkpoint.copies = 2). The folder of the copies can be resumed like
// the results folder of the run.
#pragma once

#include "troupe/algorithms/messages/state_dict.hpp"
#include "troupe/runtime/checkpoint/manifest.hpp"
#include "troupe/runtime/support/durable_files.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace troupe::checkpoint {

/// The folder of copies, in the results folder, that `troupe run` chooses for the second node.
constexpr auto* copies_folder = "copy";

/// Reads the checkpoint of `step` in the results folder `out` and the outputs that it needs: the topology, the metrics
/// and the files of options. Each file is an entry of the result. Throws std::runtime_error.
state_dict pack_copy(const std::filesystem::path& out, std::uint64_t step, const manifest& about);

/// Writes the files of pack_copy(), which may come from another node, to the folder `out`, and then removes all but the
/// newest `keep` checkpoints there. The files of options are written to folders with the names of the options. Throws
/// std::runtime_error or damaged; the previous copies are then intact.
void write_copy(const std::filesystem::path& out, const state_dict& files, std::size_t keep, durable_files& disk);

/// Returns the path, in the folder of copies `out`, of the file of `option`, which `saved` describes.
std::filesystem::path option_file_in_copy(const std::filesystem::path& out, const std::string& option,
                                          const saved_option& saved);

}  // namespace troupe::checkpoint
