// Continuing a run from a checkpoint: what `troupe run` and `troupe node` do for --resume on the first node.
#pragma once

#include "troupe/apps/training.hpp"
#include "troupe/runtime/checkpoint/manifest.hpp"
#include "troupe/runtime/checkpoint/read_checkpoint.hpp"
#include "troupe/runtime/telemetry/pattern_files.hpp"
#include "troupe/runtime/telemetry/run_folder.hpp"

#include <filesystem>
#include <map>
#include <string>

namespace troupe::apps {

/// Describes a run in its checkpoints, except for what changes while it runs.
checkpoint::manifest describe_run(const training& what);

/// Returns whether the run to continue has made all steps of `plan`, or was stopped early, and prints that. Throws
/// input_error if the run was made with a topology that `plan` cannot continue.
bool is_complete(const training_options& given, const plan& plan);

/// The run that is continued.
struct resumption {
  telemetry::run_folder folder;  ///< Locked.
  checkpoint::loaded_checkpoint from;
  std::map<telemetry::pattern_option, std::filesystem::path> files;  ///< Of options.
};

/// Opens the results folder and reads its newest intact checkpoint. Throws input_error if there is none or if the
/// topology, the data or the files of options are not those of the run. `files` are those that the options request.
resumption resume(const training_options& given, const training& what,
                  const std::map<telemetry::pattern_option, std::filesystem::path>& files);

/// Returns an argument as a shell reads it back.
std::string quoted(const std::string& argument);

/// Returns the command that continues a run in the folder `out`, which ended with this status.
std::string continuing_command(const training_options& given, const plan& plan, const std::filesystem::path& out,
                               const std::string& status);

}  // namespace troupe::apps
