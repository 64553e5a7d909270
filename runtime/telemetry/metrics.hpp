// Text formats of the records of a run: a line of metrics.jsonl, a row of epochs.csv. docs/outputs.md describes each
// field.
#pragma once

#include "troupe/algorithms/messages/messages.hpp"
#include "troupe/algorithms/rules/evaluate.hpp"
#include "troupe/runtime/emulation/usage.hpp"
#include "troupe/runtime/telemetry/origin.hpp"
#include "troupe/runtime/topology/resumable.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::telemetry {

/// Returns one JSON object without a line break. It has every key; a value that does not apply or is not finite is
/// null. `about` is the value of the key `origin` on `start` and `resume` lines; `changed` lists the settings that
/// differ from the continued run, on the `resume` line. On other lines, these keys are null.
std::string json_line(const record& line, const std::optional<origin>& about = {},
                      const std::vector<topology::changed_setting>& changed = {});

/// Parses a JSON object that json_line() returned for a record. Values that are missing or have another type keep the
/// defaults of a new record. Returns nothing for text that is not a JSON object.
std::optional<record> record_of(std::string_view json_line);

/// Parses the lines of metrics.jsonl. Skips lines that are not JSON objects, because the last one may be incomplete.
std::vector<record> records_of(std::string_view metrics);

/// A class: its name, and how its samples were classified.
using named_counts = std::pair<std::string, rules::class_counts>;

/// Returns one JSON object without a line break: loss, accuracy and sample_count, and top_k_accuracy and classes if
/// available.
std::string json_line(const evaluation& found, const std::vector<named_counts>& classes = {});

/// Returns a readable table of the precision, recall and F1 of each class, their means, and the accuracy.
std::string table_of(const std::vector<named_counts>& classes);

/// Returns the header of epochs.csv, without a line break.
std::string csv_header();

/// Returns a row of epochs.csv without a line break. The field of a value that does not apply is empty.
std::string csv_line(const record& line);

/// Returns the file workers.csv: what each worker has done in the run.
std::string csv_of_workers(const std::vector<worker_total>& workers);

/// Returns the file links.csv: what the emulated network has carried in `seconds`. If `seconds` is not set, the shares
/// are empty.
std::string csv_of_links(const std::vector<emulation::wire_usage>& links, std::optional<double> seconds);

}  // namespace troupe::telemetry
