// Reads what a run has measured from its metrics.jsonl and workers.csv.
#pragma once

#include "troupe/tools/comparing/comparison.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::comparing {

/// Returns the result that metrics.jsonl reports. Without a line of event `end`, the run has failed. An incomplete last
/// line is ignored. Samples are summed over the intervals between lines, as samples_per_second times train_seconds.
run_result result_of(std::string_view metrics, std::optional<double> target);

/// Adds the figures of workers.csv: the samples of all workers, and the mean share of the training time in which they
/// waited for exchanges. Does nothing if `table` is not such a table.
void add_workers(run_result& result, const std::string& table);

/// Returns the result of the run in `folder`, or nothing if no run was started there. A run that was started has
/// metrics, or a log next to the folder: see log_of().
std::optional<run_result> read_result(const std::filesystem::path& folder, std::optional<double> target);

/// Returns the path of the file with everything that the run in `folder` has printed.
std::filesystem::path log_of(const std::filesystem::path& folder);

}  // namespace troupe::comparing
