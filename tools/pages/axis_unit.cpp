#include "troupe/tools/pages/axis_unit.hpp"

#include <initializer_list>

namespace troupe::pages {

namespace {

struct choice {
  axis_unit unit;
  double from;  ///< Used if the largest value is at least this.
};

/// Chooses the largest unit whose `from` is at most the largest value; the units are in ascending order.
axis_unit chosen(double largest, std::initializer_list<choice> choices) {
  auto unit = choices.begin()->unit;
  for (const auto& candidate : choices)
    if (largest >= candidate.from) unit = candidate.unit;
  return unit;
}

}  // namespace

axis_unit unit_of_seconds(double largest) {
  return chosen(largest, {{{"ms", 1e-3}, 0}, {{"s", 1}, 1}, {{"min", 60}, 600}, {{"h", 3600}, 36000}});
}

axis_unit unit_of_bytes(double largest) {
  constexpr double ki = 1024, mi = ki * ki, gi = mi * ki, ti = gi * ki;
  return chosen(
      largest,
      {{{"B", 1}, 0}, {{"KiB", ki}, 4 * ki}, {{"MiB", mi}, 4 * mi}, {{"GiB", gi}, 4 * gi}, {{"TiB", ti}, 4 * ti}});
}

axis_unit unit_of_samples(double largest) {
  return chosen(largest, {{{"", 1}, 0}, {{"thousands", 1e3}, 1e4}, {{"millions", 1e6}, 1e7}});
}

}  // namespace troupe::pages
