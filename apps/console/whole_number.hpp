// Options whose values are whole numbers.
#pragma once

#include <CLI/CLI.hpp>

#include <charconv>
#include <cstdint>
#include <limits>
#include <string>

namespace troupe::apps {

/// Accepts whole numbers from `least` on. CLI11 itself would take -1 for the largest number.
inline CLI::Validator whole_number(std::uint64_t least) {
  return CLI::Validator{[least](const std::string& text) -> std::string {
                          std::uint64_t value = 0;
                          const auto* last = text.data() + text.size();
                          const auto [end, error] = std::from_chars(text.data(), last, value);
                          if (error == std::errc{} && end == last && value >= least) return {};
                          return "Value " + text + " is not a whole number from " + std::to_string(least) + " to " +
                                 std::to_string(std::numeric_limits<std::uint64_t>::max());
                        },
                        ""};
}

}  // namespace troupe::apps
