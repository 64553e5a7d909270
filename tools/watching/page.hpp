// The page about a run, as HTML: followed in a browser while the run trains, and frozen as report.html at its end.
#pragma once

#include "troupe/tools/watching/facts.hpp"
#include "troupe/tools/watching/history.hpp"

#include <filesystem>
#include <string>

namespace troupe::watching {

/// Returns the drawing of the wiring that a results folder has, as SVG, or "".
std::string drawing_in(const std::filesystem::path& folder);

/// Returns the page with everything in it, for a file: it loads nothing. `wiring`: the drawing as SVG, or empty.
std::string report_of(const run_facts& facts, const history_state& state, const std::string& wiring);

/// Returns the page that follows the run. It loads the drawing and the updates from its server.
std::string live_page_of(const run_facts& facts, const history_state& state);

/// Returns the Content-Security-Policy of live_page_of().
std::string live_policy();

/// Returns an update of that page, as JSON on one line. `has_wiring`: whether the drawing can be loaded.
std::string update_of(const run_facts& facts, const history_state& state, bool has_wiring);

/// Returns the state of the run as one JSON object, without lists of lines.
std::string json_of(const run_facts& facts, const history_state& state);

/// Returns the values of the figures of the page: one JSON object with the CSV file of each, by name.
std::string csv_of_figures(const run_facts& facts, const history_state& state);

}  // namespace troupe::watching
