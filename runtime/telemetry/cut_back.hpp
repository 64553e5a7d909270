// Restores the outputs of a run to their state when a checkpoint was written.
#pragma once

#include "troupe/runtime/checkpoint/manifest.hpp"
#include "troupe/runtime/telemetry/pattern_files.hpp"

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

namespace troupe::telemetry {

/// Describes the outputs in `folder` to which a continued run appends, by name. Throws std::runtime_error if one cannot
/// be read.
std::map<std::string, checkpoint::sealed_file> sealed_outputs(const std::filesystem::path& folder);

/// Describes the current content of the file of an option. Throws std::runtime_error if it cannot be read.
checkpoint::saved_option option_file(const std::filesystem::path& path);

/// Returns the files of options to which the continued run in `folder` appends. The path of each option in `about` is
/// the one in `given`, or else the file in `folder` if that is a folder of copies, or else the recorded path. A file
/// may be missing. Throws input_error if a file is not the one that the run has written, or if `given` contains an
/// option that the run did not have.
std::map<pattern_option, std::filesystem::path> continued_files(
    const std::filesystem::path& folder, const checkpoint::manifest& about,
    const std::map<pattern_option, std::filesystem::path>& given);

/// Restores all outputs: the text files to the content that `about` records, and the weights to those in the
/// checkpoint. An output that is missing, or is not the file that the run has written, is not an error: a file in its
/// place is kept under another name, the output is written again from metrics.jsonl or starts empty, and `warn` is
/// called. Throws std::runtime_error.
void cut_back(const std::filesystem::path& folder, const std::filesystem::path& checkpoint,
              const checkpoint::manifest& about, const std::map<pattern_option, std::filesystem::path>& files,
              const std::function<void(const std::string&)>& warn);

/// How the run in a results folder ended.
struct recorded_end {
  std::string status;
  std::uint64_t step{0};
};

/// Returns the `end` record with which metrics.jsonl ends, if the result of the run has been saved.
std::optional<recorded_end> end_of(const std::filesystem::path& folder);

}  // namespace troupe::telemetry
