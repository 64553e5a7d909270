// The folder of a comparison: what is compared (comparison.json, topologies/), the runs (runs/), and the reports. Only
// one process uses it at a time.
#pragma once

#include "troupe/runtime/support/folder_lock.hpp"
#include "troupe/tools/comparing/comparison.hpp"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace troupe::comparing {

/// The name of the file that describes a comparison; a folder that contains it is that of a comparison.
constexpr auto* description_file = "comparison.json";

/// Locks the folder until the result is destroyed, and creates it if it is missing. Throws input_error if it cannot be
/// written, or if another process has locked it.
std::shared_ptr<held_folder> open_folder(const std::filesystem::path& folder);

/// Throws input_error if the folder is not empty and `overwrite` is false. With `overwrite`, throws input_error if the
/// folder has entries with the names of a comparison's subfolders but does not contain a comparison, or if its
/// description cannot be read, because it is then unknown which files belong to the user.
void check_replaceable(const std::filesystem::path& folder, bool overwrite);

/// Checks the same again and removes what the comparison in the folder has written, and nothing else. The folder must
/// be locked.
void make_way(const std::filesystem::path& folder, bool overwrite);

/// Removes the files that a run has written to its folder, and its log.
void forget_run(const std::filesystem::path& out);

/// Writes the description of a comparison, its topologies and its wirings. Throws std::runtime_error.
void write_comparison(const std::filesystem::path& folder, const comparison& what);

/// Reads what write_comparison() wrote. Throws input_error if the folder does not contain a comparison.
comparison read_comparison(const std::filesystem::path& folder);

/// Returns the path of the topology file of a variant.
std::filesystem::path topology_of(const std::filesystem::path& folder, const variant& what);

/// Returns all runs that were started, in the order of the variants, then of the repeats.
std::vector<made_run> read_runs(const std::filesystem::path& folder, const comparison& what);

/// Throws input_error if `asked`, the variants that the command line describes, are not those of the comparison.
void check_same(const std::filesystem::path& folder, const comparison& what, const std::vector<variant>& asked);

}  // namespace troupe::comparing
