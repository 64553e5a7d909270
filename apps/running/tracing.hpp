// What --trace and [[link]] add to the results of a run: trace.json and links.csv, or this node's parts of them.
#pragma once

#include "troupe/apps/running/training.hpp"
#include "troupe/runtime/emulation/usage.hpp"
#include "troupe/runtime/telemetry/file_journal.hpp"
#include "troupe/runtime/telemetry/trace_file.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

namespace CLI {
class App;
}

namespace troupe::apps {

/// Adds --trace to `command`.
void add_trace_option(CLI::App& command, bool& trace);

/// Returns the trace of a node in real time, or null without --trace. On the first node, write_to() must be called
/// afterwards.
std::shared_ptr<telemetry::trace_file> make_trace(const training_options& given, const plan& plan, std::uint32_t node);

/// Returns the trace of a run that is simulated or replayed in this folder, or null unless `wanted`. Times are relative
/// to `origin`.
std::shared_ptr<telemetry::trace_file> make_trace(bool wanted, const std::filesystem::path& folder,
                                                  const std::string& process, trace_time origin);

/// Writes what the emulated links of this node have carried. `journal` is null on all nodes but the first.
void write_links(const training_options& given, const plan& plan, std::uint32_t node,
                 const telemetry::file_journal* journal, const std::vector<emulation::wire_usage>& links);

}  // namespace troupe::apps
