// Takes the outputs of a run back to the state that they had when a checkpoint was written.
#pragma once

#include "troupe/runtime/checkpoint/manifest.hpp"
#include "troupe/runtime/telemetry/pattern_files.hpp"

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

namespace troupe::telemetry {

/// Describes the outputs in `folder` that a continued run goes on with, by name. Throws std::runtime_error if one
/// cannot be read.
std::map<std::string, checkpoint::sealed_file> sealed_outputs(const std::filesystem::path& folder);

/// Describes a file of an option as it is now. Throws std::runtime_error if it cannot be read.
checkpoint::saved_option option_file(const std::filesystem::path& path);

/// Returns the files of options that the continued run in `folder` goes on with: those of `about`, at the paths in
/// `given` if the options are given again, or else in the folder if it is one of copies. A file may be missing. Throws
/// input_error if there is another one than the run has written, or if an option is given that the run did not have.
std::map<pattern_option, std::filesystem::path> continued_files(
    const std::filesystem::path& folder, const checkpoint::manifest& about,
    const std::map<pattern_option, std::filesystem::path>& given);

/// Takes all outputs back: the text files to what they had according to `about`, and the weights to those in the
/// checkpoint. An output that is missing, or is another file than the run has written, costs no more than itself: what
/// is there is kept under another name, the lines are taken from metrics.jsonl or begin anew, and `warn` is called.
/// Throws std::runtime_error.
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
