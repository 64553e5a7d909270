// A display that forwards everything to another display and keeps it for a page: for the server of the dashboard, if
// there is one, and for report.html at the end of the run.
#pragma once

#include "troupe/net/channels/endpoint.hpp"
#include "troupe/runtime/telemetry/display.hpp"
#include "troupe/runtime/telemetry/feed.hpp"
#include "troupe/runtime/telemetry/side_outputs.hpp"
#include "troupe/tools/watching/facts.hpp"
#include "troupe/tools/watching/history.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace troupe::watching {

/// The report, in the results folder.
constexpr auto* report_name = "report.html";

struct watch_options {
  run_facts facts{};
  bool continues{false};  ///< Whether the folder has the lines of a run that is continued.
  /// Where the dashboard is served; empty if it is not.
  std::optional<endpoint> dashboard{};
  std::shared_ptr<telemetry::feed> feed{};  ///< Told which workers wait for which; may be null.
  history::traffic_meter traffic{};         ///< See history; may be empty.
  std::function<void(const std::string&)> print = [](const auto&) {};  ///< Prints the URL.
  /// Outputs of the run.
  std::shared_ptr<telemetry::side_outputs> outputs = std::make_shared<telemetry::side_outputs>();
};

/// Makes the display. Throws input_error if the dashboard cannot be served at its address.
std::unique_ptr<telemetry::display> make_watched_display(std::unique_ptr<telemetry::display> shown,
                                                         watch_options options);

}  // namespace troupe::watching
