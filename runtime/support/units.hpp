// Readable numbers for plans, drawings, progress lines and error messages.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace troupe {

/// Formats a number with thousands separators: 60000 → "60,000".
std::string grouped(std::uint64_t value);

/// Formats a number of things: "1 step", "60,000 steps". `noun` is the singular, whose plural ends in s.
std::string counted(std::uint64_t count, const std::string& noun);

/// Formats a size in binary units with at least three digits: 21904 · 4 → "85.6 KiB", 512 → "512 B".
std::string human_bytes(std::uint64_t bytes);

/// Formats a duration as m:ss, or as h:mm:ss from one hour on.
std::string human_duration(std::chrono::seconds duration);

/// Formats a number with at most six significant digits and no trailing zeros: 0.05 → "0.05".
std::string human_number(double value, int digits = 6);

}  // namespace troupe
