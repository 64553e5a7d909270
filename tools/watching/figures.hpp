// The figures of a run: losses, accuracies, speed, distances and staleness against time.
#pragma once

#include "troupe/tools/pages/figure.hpp"
#include "troupe/tools/watching/facts.hpp"
#include "troupe/tools/watching/history.hpp"

#include <vector>

namespace troupe::watching {

/// Returns the figures that have values; losses and accuracies always.
std::vector<pages::figure> figures_of(const run_facts& facts, const history_state& state);

}  // namespace troupe::watching
