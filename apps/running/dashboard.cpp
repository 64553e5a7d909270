#include "troupe/apps/running/dashboard.hpp"

#include "troupe/apps/console/address_option.hpp"
#include "troupe/apps/console/messages.hpp"
#include "troupe/net/channels/endpoint.hpp"
#include "troupe/runtime/emulation/network.hpp"
#include "troupe/tools/watching/watched_display.hpp"

#include <string>
#include <utility>

namespace troupe::apps {

namespace {

constexpr address_option page_option{
    .name = "--dashboard", .by_default = default_dashboard, .example = default_dashboard};

}  // namespace

void add_dashboard_option(CLI::App& command, dashboard_option& given) {
  add_address_option(
      command, page_option, given.address,
      "Serve a page about the run while it trains, and metrics for Prometheus, at this address (default: "
      "127.0.0.1:8265; port 0 chooses a free one); beyond this host, only with the token in the printed URL");
}

void settle(dashboard_option& given, std::filesystem::path& file) {
  settle(page_option, given.address, file);
}

std::unique_ptr<telemetry::display> watched(std::unique_ptr<telemetry::display> shown, const watched_run& run,
                                            const dashboard_option& given) {
  watching::watch_options options{.facts = watching::facts_of(run.what, run.folder, run.simulated),
                                  .continues = run.continues,
                                  .feed = run.feed,
                                  .print = print_note,
                                  .outputs = run.outputs};
  options.facts.origin = run.origin;
  if (run.network)
    options.traffic = [network = run.network](watching::traffic_point& point) {
      auto counted = network->counted();
      point.edges = std::move(counted.edges);
      point.wires = std::move(counted.wires);
    };
  if (given.address) options.dashboard = parse_endpoint(*given.address);
  return watching::make_watched_display(std::move(shown), std::move(options));
}

}  // namespace troupe::apps
