// Fields of CSV files.
#pragma once

#include <optional>
#include <string>

namespace troupe {

/// Returns text as a field of a CSV file: in quotes if it contains a comma, a quote or a line break.
std::string csv_field(const std::string& text);

/// Returns a number with as many digits as are needed to read the same bits back; empty if it is unset.
std::string csv_number(std::optional<double> value);

}  // namespace troupe
