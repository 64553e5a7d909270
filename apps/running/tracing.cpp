#include "troupe/apps/running/tracing.hpp"

#include "troupe/apps/console/messages.hpp"
#include "troupe/runtime/support/write_aside.hpp"
#include "troupe/runtime/telemetry/metrics.hpp"
#include "troupe/runtime/telemetry/node_parts.hpp"
#include "troupe/runtime/telemetry/run_folder.hpp"

#include <CLI/CLI.hpp>

#include <chrono>
#include <exception>

namespace troupe::apps {

namespace fs = std::filesystem;

void add_trace_option(CLI::App& command, bool& trace) {
  command.add_flag("--trace", trace,
                   "Also write trace.json, which shows what each worker, port and lane did when; open it in Perfetto");
}

std::shared_ptr<telemetry::trace_file> make_trace(const training_options& given, const plan& plan, std::uint32_t node) {
  if (!given.trace) return nullptr;
  telemetry::trace_file_options options{.path = {}, .process = plan.nodes[node].name, .node = node, .warn = print_note};
  if (options.process.empty()) options.process = "troupe";  // the file has no [[node]]
  // The nodes of one host share this clock. The trace of a single node begins at 0.
  if (plan.nodes.size() == 1) options.origin = trace_time_of(std::chrono::steady_clock::now());
  if (node != 0) {
    const auto folder = given.parts.empty() ? given.out : given.parts;
    options.path = (folder.empty() ? telemetry::default_folder(given.file) : folder) /
                   telemetry::name_of_part("trace", ".json", node, plan.nodes[node].name);
  }
  return std::make_shared<telemetry::trace_file>(std::move(options));
}

std::shared_ptr<telemetry::trace_file> make_trace(bool wanted, const fs::path& folder, const std::string& process,
                                                  trace_time origin) {
  if (!wanted) return nullptr;
  return std::make_shared<telemetry::trace_file>(telemetry::trace_file_options{
      .path = folder / "trace.json", .process = process, .origin = origin, .warn = print_note});
}

void write_links(const training_options& given, const plan& plan, std::uint32_t node,
                 const telemetry::file_journal* journal, const std::vector<emulation::wire_usage>& links) {
  if (plan.links.empty()) return;
  try {
    if (node == 0) {
      if (journal) journal->write_links(links);
      return;
    }
    const auto folder = given.parts.empty() ? given.out : given.parts;
    if (!folder.empty() && !links.empty())
      write_aside(folder / telemetry::name_of_part("links", ".csv", node, plan.nodes[node].name),
                  telemetry::csv_of_links(links, {}));
  } catch (const std::exception& reason) {
    print_note(std::string("warning: links.csv is not written: ") + reason.what());
  }
}

}  // namespace troupe::apps
