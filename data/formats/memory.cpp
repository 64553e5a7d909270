#include "troupe/data/formats/memory.hpp"

#include "troupe/files/input.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <sstream>
#include <string>

namespace troupe::data {

namespace {

constexpr auto unlimited = std::numeric_limits<std::uint64_t>::max();

/// Returns the contents of a system file; empty if it cannot be read.
std::istringstream lines_in(const std::string& path) {
  constexpr std::uint64_t most = 1 << 20;
  try {
    return std::istringstream{files::read_all(path, most)};
  } catch (const files::unreadable&) {
    return {};  // an unknown limit is no limit
  }
}

/// Returns the number after `key` in a file of lines "key number …".
std::optional<std::uint64_t> amount_in(const std::string& path, const std::string& key) {
  auto in = lines_in(path);
  for (std::string word; in >> word;) {
    std::uint64_t value = 0;
    if (word == key && in >> value) return value;
    in.clear();
    in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

/// Returns the number that a file consists of, or nothing.
std::optional<std::uint64_t> number_of(const std::string& path) {
  auto in = lines_in(path);
  std::uint64_t value = 0;
  return in >> value ? std::optional{value} : std::nullopt;
}

std::uint64_t difference(std::uint64_t most, std::uint64_t used) {
  return most - std::min(most, used);
}

std::uint64_t of_machine() {
  const std::string path = "/proc/meminfo";
  const auto available = amount_in(path, "MemAvailable:");
  if (!available) return unlimited;
  return (*available + amount_in(path, "SwapFree:").value_or(0)) * 1024;
}

/// Returns what the control group (cgroup v2) allows; "max" is not a number. Cached files that are not in use count as
/// available, because the kernel reclaims them when memory is short.
std::uint64_t of_control_group() {
  auto in = lines_in("/proc/self/cgroup");
  std::string line, group;
  while (std::getline(in, line))
    if (line.starts_with("0::")) group = line.substr(3);
  auto least = unlimited;
  for (;; group.erase(group.rfind('/'))) {  // a group is also limited by its parents
    const auto folder = "/sys/fs/cgroup" + (group == "/" ? "" : group);
    if (const auto most = number_of(folder + "/memory.max")) {
      const auto used = number_of(folder + "/memory.current").value_or(0);
      const auto cached = amount_in(folder + "/memory.stat", "inactive_file").value_or(0);
      least = std::min(least, difference(*most, difference(used, cached)));
    }
    if (group.rfind('/') == std::string::npos) return least;
  }
}

std::uint64_t of_limit(decltype(RLIMIT_AS) which, const std::string& used) {
  rlimit limit{};
  if (getrlimit(which, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return unlimited;
  return difference(limit.rlim_cur, amount_in("/proc/self/status", used).value_or(0) * 1024);
}

}  // namespace

std::uint64_t available_memory() {
  return std::min({of_machine(), of_control_group(), of_limit(RLIMIT_AS, "VmSize:"), of_limit(RLIMIT_DATA, "VmData:")});
}

}  // namespace troupe::data
