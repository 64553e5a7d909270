#include "troupe/tools/comparing/words.hpp"

#include "troupe/runtime/support/units.hpp"

#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string_view>

namespace troupe::comparing {

namespace {

constexpr auto* dash = "–";

std::string fixed(double value, int places) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", places, value);
  return text.data();
}

}  // namespace

std::string plain(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (std::string_view("\\`*_{}[]<>#|&~").find(c) != std::string_view::npos) safe += '\\';
    safe += c == '\n' ? ' ' : c;
  }
  return safe;
}

std::string seconds_text(double seconds) {
  if (seconds < 119.5) return number_text(seconds) + " s";
  return human_duration(std::chrono::seconds(std::llround(seconds))) + (seconds < 3599.5 ? " min" : " h");
}

std::string percent_text(double share) {
  return fixed(100 * share, 2) + " %";
}

std::string bytes_text(double bytes) {
  return human_bytes(static_cast<std::uint64_t>(std::llround(bytes)));
}

std::string count_text(double count) {
  return grouped(static_cast<std::uint64_t>(std::llround(count)));
}

std::string number_text(double value) {
  if (value == 0 || !std::isfinite(value)) return fixed(value, 0);
  const auto magnitude = static_cast<int>(std::floor(std::log10(std::abs(value))));
  return fixed(value, std::max(0, 2 - magnitude));
}

std::string spread_text(const std::optional<spread>& of, const std::function<std::string(double)>& text) {
  if (!of) return dash;
  const auto median = text(of->median), low = text(of->low), high = text(of->high);
  if (of->count < 2 || (low == median && high == median)) return median;
  return median + " (" + low + " to " + high + ")";
}

std::string target_text(const std::optional<to_target>& of, const std::function<std::string(double)>& text) {
  if (!of) return dash;
  const auto& taken = of->taken;
  if (of->reached == 0) return "not reached";
  const auto reached = grouped(of->reached) + " of " + counted(taken.count, "run");
  if (!of->is_finite()) return "not reached (" + reached + " after " + text(taken.low) + ")";
  if (of->reached < taken.count) return text(taken.median) + " (from " + text(taken.low) + "; " + reached + ")";
  return spread_text(taken, text);
}

}  // namespace troupe::comparing
