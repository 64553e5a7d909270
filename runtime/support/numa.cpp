#include "troupe/runtime/support/numa.hpp"

#include "troupe/files/input.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>
#include <optional>
#include <sched.h>
#include <string>
#include <string_view>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace troupe {

namespace {

constexpr int core_limit = 1 << 16;  // Linux is built for 8192 at most
constexpr std::size_t text_limit = 1 << 16;

/// Removes a number below core_limit from the front of `text` and returns it, or nothing if there is none.
std::optional<int> take_number(std::string_view& text) {
  unsigned number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || number >= static_cast<unsigned>(core_limit)) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return static_cast<int>(number);
}

bool take(std::string_view& text, char expected) {
  if (text.empty() || text.front() != expected) return false;
  text.remove_prefix(1);
  return true;
}

/// Parses a list such as "0-3,8-11", ascending, with or without an end of line; an empty line means no cores. Returns
/// nothing for other text.
std::optional<std::vector<int>> parse_cores(std::string_view text) {
  std::vector<int> cores;
  if (text.ends_with('\n')) text.remove_suffix(1);
  if (text.empty()) return cores;
  do {
    const auto first = take_number(text);
    const auto last = first && take(text, '-') ? take_number(text) : first;
    if (!first || !last || *last < *first || (!cores.empty() && *first <= cores.back())) return std::nullopt;
    for (int core = *first; core <= *last; ++core) cores.push_back(core);
  } while (take(text, ','));
  if (!text.empty()) return std::nullopt;
  return cores;
}

/// Returns N for a folder nodeN, or nothing for another name.
std::optional<int> id_of(const std::string& name) {
  std::string_view digits = name;
  if (!digits.starts_with("node")) return std::nullopt;
  digits.remove_prefix(4);
  const auto id = take_number(digits);
  return id && name == "node" + std::to_string(*id) ? id : std::nullopt;
}

/// Returns the cores of a node's folder, or nothing if the list is not valid. A node that is offline has no list.
std::optional<std::vector<int>> cores_of(const std::filesystem::path& folder) {
  try {
    return parse_cores(files::read_all(folder / "cpulist", text_limit));
  } catch (const files::missing&) {
    return std::vector<int>{};
  } catch (const files::unreadable&) {
    return std::nullopt;
  }
}

/// Returns the nodes that have cores; none if a list is not valid, or if two nodes claim the same core.
std::vector<numa_node> read_nodes(const std::filesystem::path& system) {
  std::vector<numa_node> nodes;
  std::vector<int> claimed;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(system, error), end; !error && entry != end; entry.increment(error)) {
    const auto id = id_of(entry->path().filename().string());
    if (!id) continue;
    auto cores = cores_of(entry->path());
    if (!cores) return {};
    claimed.insert(claimed.end(), cores->begin(), cores->end());
    if (!cores->empty()) nodes.push_back({*id, std::move(*cores)});
  }
  if (error) return {};
  std::sort(claimed.begin(), claimed.end());
  if (std::adjacent_find(claimed.begin(), claimed.end()) != claimed.end()) return {};
  std::sort(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  return nodes;
}

struct free_cores {
  void operator()(cpu_set_t* set) const { CPU_FREE(set); }
};

/// Removes the cores on which this process may not run. The kernel refuses a set that is too small for the machine.
void keep_allowed(std::vector<numa_node>& nodes) {
  for (int count = CPU_SETSIZE; count <= core_limit; count *= 2) {
    const std::unique_ptr<cpu_set_t, free_cores> set(CPU_ALLOC(count));
    const auto bytes = CPU_ALLOC_SIZE(count);
    if (!set) return;
    CPU_ZERO_S(bytes, set.get());
    // The mask of the first thread counts, because the calling thread may be pinned to a few cores.
    if (::sched_getaffinity(::getpid(), bytes, set.get()) != 0) {
      if (errno == EINVAL) continue;
      return;
    }
    for (auto& node : nodes) std::erase_if(node.cores, [&](int core) { return !CPU_ISSET_S(core, bytes, set.get()); });
    std::erase_if(nodes, [](const auto& node) { return node.cores.empty(); });
    return;
  }
}

}  // namespace

std::vector<numa_node> numa_nodes(const std::filesystem::path& system) {
  auto nodes = read_nodes(system);
  if (system == "/sys/devices/system/node") keep_allowed(nodes);
  if (nodes.empty()) nodes.emplace_back();
  return nodes;
}

}  // namespace troupe
