// The files of `--csv PATTERN` and `--epoch-log PATTERN`, named after the settings of the run, for scripts that plot
// many runs. Their formats match those of published programs byte for byte; docs/outputs.md describes them.
#pragma once

#include "troupe/algorithms/messages/messages.hpp"
#include "troupe/runtime/plan/plan.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace troupe::telemetry {

/// A command-line option that takes a pattern.
enum class pattern_option : std::uint8_t {
  csv,        ///< --csv: training time and validation accuracy of each evaluation.
  epoch_log,  ///< --epoch-log: number, training time, training loss and validation accuracy of each epoch.
};

/// Returns the option as it is written on the command line, such as "--csv".
std::string name_of(pattern_option option);

/// Replaces the placeholders of a pattern such as "{ranks}ranks-{batch}bs.csv" by values from the plan. Throws
/// input_error for an unknown placeholder, naming the known ones, and for an unmatched brace.
std::filesystem::path path_of(pattern_option option, const std::string& pattern, const plan& plan);

/// Creates the parent folders of `path`. Throws input_error if `path` must not be replaced: if it exists and
/// `overwrite` is false, or if it is a result of the run in `folder`, or the `topology` file.
void make_way_for(pattern_option option, const std::filesystem::path& path, bool overwrite,
                  const std::filesystem::path& folder, const std::filesystem::path& topology);

/// Returns the text with which such a file begins.
std::string_view beginning_of(pattern_option option);

/// Returns the text that a record adds to such a file: a line, or nothing.
std::string addition_of(pattern_option option, const record& line);

/// Formats a number like Python's `repr(round(value, digits))`, for 0 ≤ value < 1e15: the decimal nearest to the exact
/// binary value, ties to even, with at least one decimal place and no trailing zeros beyond it.
std::string as_python_rounds(double value, int digits);

}  // namespace troupe::telemetry
