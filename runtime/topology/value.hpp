// Values of the topology file as text: how each type is written, how messages describe what was expected, and the two
// small grammars that TOML lacks (durations and intervals).
#pragma once

#include "troupe/files/setting.hpp"
#include "troupe/files/text.hpp"
#include "troupe/runtime/topology/topology.hpp"

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::topology {

/// Returns the value as TOML. A number has as many digits as are needed to read the same bits back.
std::string to_toml(const setting_value& value);

/// Parses "20ms", "1.5s", "5min" or "1h". Returns nothing unless it is a whole number of milliseconds from 1 ms to
/// 10,000 h.
std::optional<std::chrono::milliseconds> parse_duration(std::string_view text);

/// Returns a duration in seconds, or in milliseconds if it is not a whole number of seconds.
std::string print_duration(std::chrono::milliseconds duration);

/// Parses a duration as above, but also "0s" and "50us". Returns nothing unless it is a whole number of microseconds up
/// to 10,000 h.
std::optional<std::chrono::microseconds> parse_delay(std::string_view text);

/// Returns a delay as parse_delay() reads it, in the largest unit in which it is a whole number.
std::string print_delay(std::chrono::microseconds delay);

/// Parses "100Mbit/s" or "8GB/s", with the prefixes k, M, G and T (powers of 1000) or Ki, Mi, Gi and Ti (powers of
/// 1024). Returns nothing unless the rate is positive and finite.
std::optional<byte_rate> parse_rate(std::string_view text);

/// Parses "4", "4 steps" or "1 epoch". Returns nothing unless the count is from 1 to 10^12.
std::optional<interval> parse_interval(std::string_view text);

/// Returns an interval as parse_interval() reads it.
std::string print_interval(const interval& every);

/// Returns the N of "cuda:N" if it is at most 127, or nothing.
std::optional<std::size_t> index_of_gpu(std::string_view text);

/// Returns devices as TOML: a single one as a string, several as a list.
std::string print_devices(const std::vector<std::string>& devices);

/// Describes the values that workers.device accepts.
std::string devices_expectation();

/// Describes the values that `row` accepts, such as "an integer from 1 to 4096".
std::string expectation(const setting& row);

/// Describes the matrix that `row` accepts instead of one of its choices.
std::string matrix_expectation(const setting& row);

/// Returns whether `row` accepts the value: numbers are in its range, a string is one of its choices, the rows of a
/// matrix have equal length, and pairs have two elements.
bool allowed(const setting& row, const setting_value& value);

}  // namespace troupe::topology
