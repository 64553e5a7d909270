// The state of a run in the text format of Prometheus, version 0.0.4.
#pragma once

#include "troupe/tools/watching/facts.hpp"
#include "troupe/tools/watching/history.hpp"

#include <string>

namespace troupe::watching {

/// The media type of exposition_of().
constexpr auto* exposition_type = "text/plain; version=0.0.4; charset=utf-8";

/// Returns all metrics that have values, each with its help and its type. Metrics of workers have the label `rank`, for
/// at most 64 workers.
std::string exposition_of(const run_facts& facts, const history_state& state);

}  // namespace troupe::watching
