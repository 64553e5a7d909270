// The files of `--csv PATTERN` and `--epoch-log PATTERN`, named after the run's settings, for scripts that plot many
// runs. They have the formats of published programs, byte by byte; docs/outputs.md describes them.
#pragma once

#include "troupe/actors/messages.hpp"
#include "troupe/runtime/plan/plan.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace troupe::telemetry {

/// An option that takes such a pattern.
enum class pattern_option : std::uint8_t {
  csv,        ///< --csv: training time and validation accuracy of each evaluation.
  epoch_log,  ///< --epoch-log: number, training time, training loss and validation accuracy of each epoch.
};

/// Replaces the placeholders of a pattern such as "{ranks}ranks-{batch}bs.csv" by what the plan says. Throws
/// input_error for an unknown placeholder, naming those there are, and for a brace without its counterpart.
std::filesystem::path path_of(pattern_option option, const std::string& pattern, const plan& plan);

/// Makes the folders above `path`. Throws input_error where something lies there that may not be replaced: nothing of
/// the run's own, which are its `folder` and the `topology` file.
void make_way_for(pattern_option option, const std::filesystem::path& path, bool overwrite,
                  const std::filesystem::path& folder, const std::filesystem::path& topology);

/// Returns what such a file begins with.
std::string_view beginning_of(pattern_option option);

/// Returns what a record adds to it: a line, or nothing.
std::string addition_of(pattern_option option, const record& line);

/// Returns what Python's `repr(round(value, digits))` returns, for 0 ≤ value < 1e15: the decimal nearest to the exact
/// binary value, ties to even, with at least one decimal place and no trailing zeros beyond it.
std::string as_python_rounds(double value, int digits);

}  // namespace troupe::telemetry
