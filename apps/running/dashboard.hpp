// The option --dashboard, which several commands have, and the report that each run writes.
#pragma once

#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/telemetry/display.hpp"
#include "troupe/runtime/telemetry/feed.hpp"
#include "troupe/runtime/telemetry/origin.hpp"
#include "troupe/runtime/telemetry/side_outputs.hpp"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace CLI {
class App;
}

namespace troupe::emulation {
class network;
}

namespace troupe::apps {

/// Address at which the page is served if none is given.
constexpr auto* default_dashboard = "127.0.0.1:8265";

/// The address at which the page about a run is served while it trains.
struct dashboard_option {
  std::optional<std::string> address{};  ///< As given; empty if the page is not served.
};

/// Adds the option. `given` must outlive the command.
void add_dashboard_option(CLI::App& command, dashboard_option& given);

/// Moves FILE of `--dashboard FILE` to `file` if it is not an address: the address of the option may be left out.
/// Throws input_error if the address is not valid.
void settle(dashboard_option& given, std::filesystem::path& file);

/// The run that a page is about.
struct watched_run {
  const plan& what;
  std::filesystem::path folder{};  ///< Where the report is written.
  bool simulated{false};
  bool continues{false};  ///< Whether the folder has the lines of the run that is continued.
  std::shared_ptr<const emulation::network> network{};  ///< Network of the run, which counts its traffic; may be null.
  std::shared_ptr<telemetry::side_outputs> outputs;     ///< Shared with other writers of the run.
  std::shared_ptr<telemetry::feed> feed{};              ///< What guests are told; may be null.
  telemetry::origin origin{};                           ///< When and with what the run was begun or continued.
};

/// Returns a display that also serves the page, if that was requested, and writes the report at the end of the run.
/// Throws input_error if the address cannot be used.
std::unique_ptr<telemetry::display> watched(std::unique_ptr<telemetry::display> shown, const watched_run& run,
                                            const dashboard_option& given = {});

}  // namespace troupe::apps
