// What `troupe compare` compares, and what its runs have measured. Plain data; nothing here reads files or clocks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace troupe::comparing {

/// The largest number of runs of each variant.
constexpr std::uint32_t most_repeats = 1000;

/// A key of topology files, as --set names it, and the values that --vary gives it.
struct varied_key {
  std::string key{};
  std::vector<std::string> values{};
};

/// A topology file with one combination of the varied settings. It is run once for each repeat.
struct variant {
  std::string file{};                                         ///< As given on the command line.
  std::vector<std::pair<std::string, std::string>> varied{};  ///< Key and value of each varied setting.
  std::string label{};     ///< Short unique name for figures and tables: stem of the file, then the varied settings.
  std::string folder{};    ///< The label as a name of files and folders.
  std::string topology{};  ///< The topology file with every default filled in, as it is run.
  std::map<std::string, std::string> settings{};  ///< Values by key, without paths: see topology::canonical().
  std::set<std::string> given{};                  ///< Keys of `settings` that the file or the command line sets.
  std::string wiring{};                           ///< Drawing of the wiring, as SVG.

  /// Returns the value of the column `file` in compare.csv: the file, then "key=value" for each varied setting.
  std::string file_column() const;
};

/// Everything about a comparison that is known before its runs, and that --resume needs to continue it.
struct comparison {
  std::vector<variant> variants{};
  std::uint64_t first_seed{0};  ///< run.seed of the first repeat; each further repeat adds 1.
  std::uint32_t repeats{1};
  std::optional<double> target{};  ///< Validation accuracy to which the time is measured, from 0 to 1.
  bool simulated{false};
  std::string started{};  ///< UTC time, such as "2025-11-24 09:30".
  /// Fingerprints of the machines on which runs were made: values by readable names. There is almost always one.
  std::vector<std::map<std::string, std::string>> machines{};
};

/// One run of a comparison. Repeats are counted from 1.
struct planned_run {
  std::size_t variant{0};
  std::uint32_t repeat{1};
  std::uint64_t seed{0};
  bool operator==(const planned_run&) const = default;
};

/// Returns all runs in the order in which they are made: interleaved, so that a machine that becomes slower affects
/// every variant alike. Each repeat begins with a different variant.
std::vector<planned_run> runs_of(const comparison& what);

/// Returns the results folder of a run, from the folder of the comparison.
std::filesystem::path folder_of(const comparison& what, const planned_run& run);

/// A line of metrics.jsonl with an evaluation or the end of an epoch.
struct point {
  std::uint64_t step{0}, updates{0}, bytes_sent{0};
  double seconds{0}, train_seconds{0};
  std::optional<std::uint64_t> samples{};  ///< Samples of all workers since the run began.
  std::optional<double> train_loss{}, val_loss{}, val_accuracy{};
};

/// What a run has measured. A value that does not apply, or that a failed run has not reported, is unset.
struct run_result {
  std::string status{"failed"};  ///< "done", "stopped_early", "max_seconds", "halted", "interrupted" or "failed".
  std::optional<double> seconds{};
  std::optional<std::uint64_t> samples{}, updates{}, bytes_sent{};
  std::optional<double> final_accuracy{}, best_accuracy{};
  /// Values at the first evaluation whose accuracy is at least the target.
  std::optional<double> seconds_to_target{};
  std::optional<std::uint64_t> bytes_to_target{}, samples_to_target{};
  std::optional<double> staleness_mean{};
  std::optional<double> train_seconds{};
  std::optional<double> idle_share{};  ///< Mean share of the training time in which workers waited for an exchange.
  std::vector<point> points{};         ///< In order of steps, at most one for each.

  /// Returns whether the run need not be made again.
  bool finished() const {
    return status == "done" || status == "stopped_early" || status == "max_seconds" || status == "halted";
  }
};

/// A run that was started, with its result.
struct made_run {
  planned_run run;
  run_result result;
};

}  // namespace troupe::comparing
