// A key of the topology file as a row of a table: parser, `troupe explain`, `troupe list`, the reference page and
// error messages are all made from such rows. Exchanges bring rows of their own; the rest are in
// runtime/topology/schema.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace troupe {

enum class setting_type : std::uint8_t {
  boolean,
  integer,
  real,  ///< An integer is accepted too.
  text,
  choice,            ///< One of `choices`.
  path,              ///< Relative to the file's folder, or to the current one on the command line.
  duration,          ///< "20ms", "60s", "5min".
  every,             ///< 4, "4 steps", "1 epoch".
  endpoint,          ///< "10.0.0.1:4700".
  words,             ///< A list of strings.
  reals,             ///< A list of numbers.
  choice_or_matrix,  ///< One of `choices`, or a list of rows of numbers, all rows of one length.
  pairs,             ///< A list of lists of two strings.
  devices,           ///< "auto", "cpu", "cuda", "cuda:1", or a list of "cpu" and "cuda:N"; kept as a list.
};

/// A value as the file gave it, checked against its row. Durations and `every` are kept as their text.
using setting_value =
    std::variant<bool, std::int64_t, double, std::string, std::vector<std::string>, std::vector<double>,
                 std::vector<std::vector<double>>, std::vector<std::vector<std::string>>>;

struct setting {
  std::string name;
  setting_type type{setting_type::text};
  std::string default_text;            ///< As it would stand in the file; empty: unset.
  std::string explanation;             ///< One line, for `troupe explain` and the reference page.
  std::vector<std::string> choices{};  ///< Of `choice` and `choice_or_matrix`.
  std::optional<double> minimum{}, maximum{};
  bool minimum_excluded{false}, maximum_excluded{false};
};

/// Values by key, every default filled in.
using setting_values = std::map<std::string, setting_value>;

}  // namespace troupe
