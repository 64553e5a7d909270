// Event files for TensorBoard, in the results folder of a run. docs/outputs.md describes their content.
#pragma once

#include "troupe/algorithms/messages/journal.hpp"
#include "troupe/runtime/telemetry/side_outputs.hpp"

#include <filesystem>
#include <memory>

namespace troupe::telemetry {

struct tensorboard_options {
  std::filesystem::path folder;  ///< The results folder. A continued run reads its metrics.jsonl.
  bool continues{false};         ///< Whether the run is continued from a checkpoint.
  bool simulated{false};         ///< Whether the run begins in 1970, and its times are virtual.
  std::shared_ptr<side_outputs> outputs = std::make_shared<side_outputs>();  ///< Shared with other writers of the run.
};

/// Returns whether a file of this name is an event file.
bool is_event_file(const std::filesystem::path& path);

/// Returns a journal that passes everything on to `journal` and also writes the values of each line of metrics.jsonl to
/// a new event file.
std::shared_ptr<journal> with_event_file(std::shared_ptr<journal> journal, const tensorboard_options& options);

}  // namespace troupe::telemetry
