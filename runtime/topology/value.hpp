// Values of the topology file as text: how each type is written, what a person is told was expected, and the two small
// grammars that TOML lacks (durations and intervals).
#pragma once

#include "troupe/actors/support/setting.hpp"
#include "troupe/runtime/topology/topology.hpp"

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::topology {

/// Returns the value as TOML; a number is written with as many digits as it takes to read the same bits back.
std::string to_toml(const setting_value& value);

/// Reads "20ms", "1.5s", "5min", "1h"; empty unless it comes to whole milliseconds between 1 ms and 10,000 h.
std::optional<std::chrono::milliseconds> parse_duration(std::string_view text);

/// Writes a duration in seconds, or in milliseconds where it is not whole.
std::string print_duration(std::chrono::milliseconds duration);

/// Reads "4", "4 steps", "1 epoch"; empty unless it counts from 1 to 10^12.
std::optional<interval> parse_interval(std::string_view text);

std::string print_interval(const interval& every);

/// Returns N of "cuda:N", at most 127, or nothing.
std::optional<std::size_t> index_of_gpu(std::string_view text);

/// Writes devices as the file has them: one as a string, several as a list.
std::string print_devices(const std::vector<std::string>& devices);

/// Says what workers.device takes.
std::string devices_expectation();

/// Says what `row` takes: "an integer from 1 to 4096".
std::string expectation(const setting& row);

/// Says what `row` takes instead of one of its choices.
std::string matrix_expectation(const setting& row);

/// Says whether numbers lie in the range of `row`, a word is one of its choices, the rows of a matrix are of one length
/// and pairs of two.
bool allowed(const setting& row, const setting_value& value);

/// Lists `words` for a person: "a, b or c".
std::string listed(const std::vector<std::string>& words, std::string_view last = "or");

/// Puts each word in quotes.
std::vector<std::string> in_quotes(std::vector<std::string> words);

}  // namespace troupe::topology
