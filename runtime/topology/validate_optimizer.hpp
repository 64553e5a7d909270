// The rules that hold between the keys of [optimizer], and between them and those of other sections.
#pragma once

#include "troupe/runtime/topology/mistakes.hpp"
#include "troupe/runtime/topology/topology.hpp"

namespace troupe::topology {

/// Adds to `found` what does not fit together; `known` says what was given, and where.
void check_optimizer(const topology& file, const places& known, mistakes& found);

}  // namespace troupe::topology
