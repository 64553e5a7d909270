// What the records of a run look like on paper: a line of metrics.jsonl, a row of epochs.csv. docs/outputs.md says
// what each field means.
#pragma once

#include "troupe/actors/messages.hpp"

#include <string>

namespace troupe::telemetry {

/// Returns one JSON object without a line break: every key, null where it does not apply or is not finite.
std::string json_line(const record& line);

/// Returns one JSON object without a line break: loss, accuracy, sample_count.
std::string json_line(const evaluation& found);

std::string csv_header();

/// Returns a row without a line break; empty between commas where a value does not apply.
std::string csv_line(const record& line);

}  // namespace troupe::telemetry
