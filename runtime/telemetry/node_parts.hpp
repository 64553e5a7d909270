// Outputs of which every node of a run writes its own part: links.csv and trace.json. The first node writes them under
// these names, the others as links-NODE.csv and trace-NODE.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace troupe::telemetry {

/// Returns the name under which a node writes its part of the file STEM.EXTENSION.
std::string name_of_part(const std::string& stem, const std::string& extension, std::uint32_t node,
                         const std::string& node_name);

/// Removes the parts that other nodes wrote in an earlier run.
void remove_parts(const std::filesystem::path& folder, const std::vector<std::string>& nodes);

/// Appends the parts of the other nodes to the files of the first node, and removes them. `nodes` are the names of all
/// nodes in order. A part that is missing, or was cut short because its node was killed, is not an error. If the
/// joined file cannot be written, all parts remain.
void gather_parts(const std::filesystem::path& folder, const std::vector<std::string>& nodes);

}  // namespace troupe::telemetry
