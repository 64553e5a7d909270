// What the records of a run look like on paper: a line of metrics.jsonl, a row of epochs.csv. docs/outputs.md says
// what each field means.
#pragma once

#include "troupe/actors/messages.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace troupe::telemetry {

/// Returns one JSON object without a line break: every key, null where it does not apply or is not finite.
std::string json_line(const record& line);

/// Returns one JSON object without a line break: loss, accuracy, sample_count.
std::string json_line(const evaluation& found);

/// An epoch and, once it is known, what its evaluation found.
struct epoch_row {
  std::uint64_t epoch{0};  ///< Counted from 1.
  std::uint64_t step{0};
  double seconds{0};
  std::optional<double> samples_per_second, train_loss, val_loss, val_accuracy;
  std::uint64_t bytes_sent{0};
};

std::string csv_header();

/// Returns a row without a line break; empty between commas where a value does not apply.
std::string csv_line(const epoch_row& row);

/// Brings together what belongs to one epoch: its own record, and that of its evaluation, which comes later or not
/// at all.
class epoch_join {
 public:
  /// An evaluation is expected at every step that `evaluate_every` divides, and at `last_step`.
  epoch_join(std::uint64_t evaluate_every, std::uint64_t last_step);

  /// Takes a record; returns the epochs about which nothing more is to come, oldest first. At the end: all.
  std::vector<epoch_row> take(const record& line);

 private:
  bool complete(const epoch_row& row) const;

  std::uint64_t evaluate_every_, last_step_;
  std::map<std::uint64_t, epoch_row> waiting_;  ///< By step.
  std::optional<record> latest_;                ///< Evaluation; it may come before its epoch's own record.
};

}  // namespace troupe::telemetry
