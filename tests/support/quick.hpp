// Plans of simulations with a known duration.
#pragma once

#include "tests/support/tiny.hpp"

namespace troupe::tests {

/// A plan whose gradients take 1 ms each, without links.
inline plan quick(const tiny_options& options) {
  auto made = tiny_plan(options);
  made.file.simulate.gradient = "1ms";
  made.file.simulate.jitter = 0;
  return made;
}

}  // namespace troupe::tests
