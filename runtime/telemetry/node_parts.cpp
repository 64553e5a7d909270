#include "troupe/runtime/telemetry/node_parts.hpp"

#include "troupe/files/input.hpp"
#include "troupe/files/json.hpp"
#include "troupe/runtime/support/write_aside.hpp"

#include <array>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <functional>
#include <optional>
#include <string_view>
#include <system_error>

namespace troupe::telemetry {

namespace fs = std::filesystem;

namespace {

using line_sink = std::function<void(const std::string&)>;

void for_each_line(const fs::path& path, const line_sink& take) {
  files::input in{path};
  std::array<char, 1 << 16> block;
  std::string line;
  while (const auto count = in.read(block.data(), block.size())) {
    for (std::string_view rest{block.data(), count}; !rest.empty();) {
      const auto end = rest.find('\n');
      line += rest.substr(0, end);
      if (end == std::string_view::npos) break;
      take(line);
      line.clear();
      rest.remove_prefix(end + 1);
    }
  }
  if (!line.empty()) take(line);
}

/// Replaces the file at `path` by what `write` writes to a stream. Returns false, and leaves the file unchanged, if
/// that fails: the disk may be full.
bool replace(const fs::path& path, const std::function<void(std::ostream&)>& write) {
  const auto temporary = fs::path(path).concat(".part");
  std::error_code failed;
  std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
  write(out);
  out.close();
  if (out) fs::rename(temporary, path, failed);
  if (out && !failed) return true;
  fs::remove(temporary, failed);
  return false;
}

/// Joins traces. The lines of a trace are its events, each with a comma, between brackets.
bool join_traces(const fs::path& first, const std::vector<fs::path>& others) {
  return replace(first, [&](std::ostream& out) {
    const char* before = "[\n";
    const auto add = [&](std::string line) {
      if (line.ends_with(',')) line.pop_back();
      if (!line.starts_with('{') || !line.ends_with('}')) return;
      out << before << line;
      before = ",\n";
    };
    for_each_line(first, add);
    for (const auto& part : others) for_each_line(part, add);
    out << "\n]\n";
  });
}

/// Returns the duration of the run in this folder, if it is known.
std::optional<double> seconds_of_run(const fs::path& folder) {
  std::string last;
  for_each_line(folder / "metrics.jsonl", [&](const std::string& line) { last = line; });
  const auto end = files::parse_json(last);
  if (!end.is_object() || !end.contains("seconds") || !end["seconds"].is_number()) return std::nullopt;
  return end["seconds"].get<double>();
}

/// Fills in the share of time in which an interface was busy. Other nodes omit it, because they do not have the
/// duration of the run.
std::string with_share(const std::string& row, std::optional<double> seconds) {
  const auto gap = row.find(",,");
  if (gap == std::string::npos || !seconds || *seconds <= 0) return row;
  const auto before = row.rfind(',', gap - 1) + 1;
  double busy = 0;
  std::from_chars(row.data() + before, row.data() + gap, busy);
  return row.substr(0, gap + 1) + files::json_text(busy / *seconds) + row.substr(gap + 1);
}

/// Joins tables. The first line of a table names its columns.
bool join_tables(const fs::path& first, const std::vector<fs::path>& others) {
  const auto seconds = seconds_of_run(first.parent_path());
  return replace(first, [&](std::ostream& out) {
    for_each_line(first, [&](const std::string& line) { out << line << '\n'; });
    for (const auto& part : others) {
      bool is_header = true;
      for_each_line(part, [&](const std::string& line) {
        if (!is_header) out << with_share(line, seconds) << '\n';
        is_header = false;
      });
    }
  });
}

std::vector<fs::path> parts_of_others(const fs::path& folder, const std::vector<std::string>& nodes,
                                      const std::string& stem, const std::string& extension) {
  std::vector<fs::path> others;
  for (std::uint32_t node = 1; node < nodes.size(); ++node)
    if (auto path = folder / name_of_part(stem, extension, node, nodes[node]); exists(path))
      others.push_back(std::move(path));
  return others;
}

void gather(const fs::path& folder, const std::vector<std::string>& nodes, const std::string& stem,
            const std::string& extension,
            const std::function<bool(const fs::path&, const std::vector<fs::path>&)>& join) {
  const auto first = folder / name_of_part(stem, extension, 0, nodes.front());
  const auto others = parts_of_others(folder, nodes, stem, extension);
  if (others.empty() || !exists(first)) return;
  try {
    if (!join(first, others)) return;
  } catch (const files::unreadable&) {
    return;  // the parts stay as they are
  }
  for (const auto& part : others) fs::remove(part);
}

}  // namespace

std::string name_of_part(const std::string& stem, const std::string& extension, std::uint32_t node,
                         const std::string& node_name) {
  return stem + (node == 0 ? "" : "-" + node_name) + extension;
}

void remove_parts(const fs::path& folder, const std::vector<std::string>& nodes) {
  for (const auto& part : parts_of_others(folder, nodes, "trace", ".json")) fs::remove(part);
  for (const auto& part : parts_of_others(folder, nodes, "links", ".csv")) fs::remove(part);
}

void gather_parts(const fs::path& folder, const std::vector<std::string>& nodes) {
  gather(folder, nodes, "trace", ".json", join_traces);
  gather(folder, nodes, "links", ".csv", join_tables);
}

}  // namespace troupe::telemetry
