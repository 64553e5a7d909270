#include "troupe/runtime/support/units.hpp"

#include <array>
#include <cstdio>

namespace troupe {

std::string grouped(std::uint64_t value) {
  if (value < 1000) return std::to_string(value);
  std::array<char, 8> last{};
  std::snprintf(last.data(), last.size(), ",%03u", static_cast<unsigned>(value % 1000));
  return grouped(value / 1000) + last.data();
}

std::string counted(std::uint64_t count, const std::string& noun) {
  return grouped(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string human_bytes(std::uint64_t bytes) {
  if (bytes < 1024) return std::to_string(bytes) + " B";
  constexpr std::array units{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < units.size(); ++unit) value /= 1024;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), value < 100 ? "%.1f %s" : "%.0f %s", value, units[unit]);
  return text.data();
}

std::string human_duration(std::chrono::seconds duration) {
  const auto total = static_cast<long long>(duration.count());
  std::array<char, 32> text{};
  if (total >= 3600)
    std::snprintf(text.data(), text.size(), "%lld:%02lld:%02lld", total / 3600, total / 60 % 60, total % 60);
  else
    std::snprintf(text.data(), text.size(), "%lld:%02lld", total / 60, total % 60);
  return text.data();
}

std::string human_number(double value, int digits) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.*g", digits, value);
  return text.data();
}

}  // namespace troupe
