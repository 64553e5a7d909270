#include "troupe/runtime/checkpoint/folder.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace troupe::checkpoint {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view prefix = "step-", unfinished_prefix = ".step-", unfinished_suffix = ".tmp";
constexpr std::size_t digits = 12;

std::optional<std::uint64_t> step_of(std::string_view name) {
  if (!name.starts_with(prefix)) return {};
  const auto number = name.substr(prefix.size());
  std::uint64_t step = 0;
  const auto [end, failed] = std::from_chars(number.data(), number.data() + number.size(), step);
  if (failed != std::errc{} || end != number.data() + number.size() || name != name_of(step)) return {};
  return step;
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::error_code failed;
  std::vector<fs::path> entries;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed))
    entries.push_back(entry->path());
  return entries;
}

}  // namespace

fs::path folder_of(const fs::path& out) {
  return out / "checkpoints";
}

std::string name_of(std::uint64_t step) {
  const auto number = std::to_string(step);
  return std::string(prefix) + std::string(digits - std::min(digits, number.size()), '0') + number;
}

std::string unfinished_name_of(std::uint64_t step) {
  return "." + name_of(step) + std::string(unfinished_suffix);
}

std::vector<found_checkpoint> checkpoints_in(const fs::path& out) {
  std::vector<found_checkpoint> checkpoints;
  for (const auto& path : entries_of(folder_of(out)))
    if (const auto step = step_of(path.filename().string())) checkpoints.push_back({*step, path});
  std::sort(checkpoints.begin(), checkpoints.end(), [](const auto& a, const auto& b) { return a.step > b.step; });
  return checkpoints;
}

std::vector<fs::path> unfinished_in(const fs::path& out) {
  std::vector<fs::path> folders;
  for (const auto& path : entries_of(folder_of(out))) {
    const auto name = path.filename().string();
    if (name.starts_with(unfinished_prefix) && name.ends_with(unfinished_suffix)) folders.push_back(path);
  }
  return folders;
}

}  // namespace troupe::checkpoint
