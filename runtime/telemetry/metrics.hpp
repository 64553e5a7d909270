// What the records of a run look like on paper: a line of metrics.jsonl, a row of epochs.csv. docs/outputs.md says
// what each field means.
#pragma once

#include "troupe/actors/messages.hpp"
#include "troupe/actors/rules/evaluate.hpp"

#include <string>
#include <utility>
#include <vector>

namespace troupe::telemetry {

/// Returns one JSON object without a line break: every key, null where it does not apply or is not finite.
std::string json_line(const record& line);

/// What is known of a class: its name, and how its samples were taken.
using named_counts = std::pair<std::string, rules::class_counts>;

/// Returns one JSON object without a line break: loss, accuracy, sample_count; top_k_accuracy and classes where there
/// are any.
std::string json_line(const evaluation& found, const std::vector<named_counts>& classes = {});

/// Returns a table for people: precision, recall and F1 of each class, their means, and the accuracy.
std::string table_of(const std::vector<named_counts>& classes);

std::string csv_header();

/// Returns a row without a line break; empty between commas where a value does not apply.
std::string csv_line(const record& line);

}  // namespace troupe::telemetry
