// Continuing a run from a checkpoint: what `troupe run` and `troupe node` do for --resume on the first node.
#pragma once

#include "troupe/apps/console/shell_words.hpp"
#include "troupe/apps/running/training.hpp"
#include "troupe/runtime/checkpoint/manifest.hpp"
#include "troupe/runtime/checkpoint/read_checkpoint.hpp"
#include "troupe/runtime/telemetry/pattern_files.hpp"
#include "troupe/runtime/telemetry/run_folder.hpp"
#include "troupe/runtime/topology/resumable.hpp"

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace troupe::apps {

/// Returns the manifest of a run for its checkpoints, without what changes during the run.
checkpoint::manifest describe_run(const training& what);

/// Returns whether the run to continue has made all steps of `plan`, or was stopped early and `plan` changes no setting
/// that would let it continue. If so, prints that. Throws input_error if the run was made with a topology that `plan`
/// cannot continue.
bool is_complete(const training_options& given, const plan& plan);

/// The run that is continued.
struct resumption {
  telemetry::run_folder folder;  ///< The results folder, locked.
  checkpoint::loaded_checkpoint from;
  std::vector<topology::changed_setting> changed;                    ///< Settings that differ from the previous ones.
  std::map<telemetry::pattern_option, std::filesystem::path> files;  ///< Files of options.
};

/// Opens the results folder and reads its newest intact checkpoint. Throws input_error if there is none or if the
/// topology, the data or the files of options are not those of the run. `files` are those that the options request.
resumption resume(const training_options& given, const training& what,
                  const std::map<telemetry::pattern_option, std::filesystem::path>& files);

/// Prints how to continue the run of `plan` in the folder `out`, unless it is complete or has no checkpoint from which
/// it can be continued. `exit_status` is that of this command.
void offer_to_continue(const training_options& given, const plan& plan, const std::filesystem::path& out,
                       int exit_status);

}  // namespace troupe::apps
