// A key of the topology file as a row of a table. Parser, `troupe explain`, `troupe list`, the reference page and error
// messages are all generated from such rows. Kinds of models, data sets, losses, optimizers and exchanges add rows of
// their own; the others are in runtime/topology/schema_*.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace troupe {

/// Type of a setting.
enum class setting_type : std::uint8_t {
  boolean,
  integer,
  real,  ///< Real number; an integer is also accepted.
  text,
  choice,         ///< One of `choices`.
  paths,          ///< A list of paths.
  path,           ///< Path relative to the file's folder, or to the current folder on the command line.
  duration,       ///< "20ms", "60s", "5min".
  delay,          ///< One of `choices`, or a duration in whole microseconds, which may be zero: "0s", "50us", "1.5ms".
  rate,           ///< "100Mbit/s", "8GB/s".
  every,          ///< 4, "4 steps", "1 epoch".
  endpoint,       ///< "10.0.0.1:4700".
  words,          ///< A list of strings.
  reals,          ///< A list of numbers.
  real_or_reals,  ///< A number that applies to all, or a list of numbers; kept as a list.
  choice_or_matrix,     ///< One of `choices`, or a list of rows of numbers, all rows of one length.
  pairs,                ///< A list of lists of two strings.
  integer_or_integers,  ///< An integer that applies to all, or a list of integers.
  column,               ///< A column of a table: its name, or its number; kept as text.
  columns,              ///< A column, or a list of columns; kept as a list.
  devices,              ///< "auto", "cpu", "cuda", "cuda:1", or a list of "cpu" and "cuda:N"; kept as a list.
};

/// Returns whether a value of this type names files of this machine.
constexpr bool is_path(setting_type type) {
  return type == setting_type::path || type == setting_type::paths;
}

/// A value as given in the file, checked against its row. Durations, delays, rates and `every` are kept as text.
using setting_value =
    std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>, std::vector<std::string>,
                 std::vector<double>, std::vector<std::vector<double>>, std::vector<std::vector<std::string>>>;

/// A key of the topology file.
struct setting {
  std::string name{};                     ///< Name of the key, without its section.
  setting_type type{setting_type::text};  ///< Type of its value.
  std::string default_text{};             ///< Default as it would appear in the file; empty if unset.
  std::string explanation{};              ///< One line of help for `troupe explain` and the reference page.
  std::vector<std::string> choices{};     ///< Choices of `choice`, `choice_or_matrix` and `delay`.
  std::optional<double> minimum{};        ///< Smallest value, in seconds for a duration; empty if there is none.
  std::optional<double> maximum{};        ///< Largest value; always empty for a duration.
  bool minimum_excluded{false};           ///< Whether the value must exceed the minimum.
  bool maximum_excluded{false};           ///< Whether the value must be below the maximum.
};

/// Values by key, with every default filled in.
using setting_values = std::map<std::string, setting_value>;

}  // namespace troupe
