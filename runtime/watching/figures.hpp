// The figures of a run: losses, accuracies, speed, distances and staleness against time.
#pragma once

#include "troupe/runtime/pages/figure.hpp"
#include "troupe/runtime/watching/facts.hpp"
#include "troupe/runtime/watching/history.hpp"

#include <vector>

namespace troupe::watching {

/// Returns the figures that have values; losses and accuracies always.
std::vector<pages::figure> figures_of(const run_facts& facts, const history_state& state);

}  // namespace troupe::watching
