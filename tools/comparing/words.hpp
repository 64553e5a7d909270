// Readable numbers and ranges for reports and progress lines.
#pragma once

#include "troupe/tools/comparing/statistics.hpp"

#include <functional>
#include <optional>
#include <string>

namespace troupe::comparing {

/// Returns text that Markdown shows as it is, also in a table.
std::string plain(const std::string& text);

/// Returns a time with three significant digits, such as "0.0123 s" or "12.3 s", or from two minutes on as "2:05 min".
std::string seconds_text(double seconds);

/// Returns a share as a percentage with two decimal places, such as "97.12 %".
std::string percent_text(double share);

/// Returns a size such as "85.6 KiB". `bytes` need not be whole.
std::string bytes_text(double bytes);

/// Returns a count with thousands separators, such as "59,904".
std::string count_text(double count);

/// Returns a number with three significant digits.
std::string number_text(double value);

/// Returns the median, and in brackets the range if there are several values: "12.3 s (11.9 s to 12.8 s)". Returns a
/// dash if there is no spread.
std::string spread_text(const std::optional<spread>& of, const std::function<std::string(double)>& text);

/// Returns the same for what it took to reach the target. If half of the runs or more did not reach it, returns
/// "not reached", with the smallest value of the runs that did.
std::string target_text(const std::optional<to_target>& of, const std::function<std::string(double)>& text);

}  // namespace troupe::comparing
