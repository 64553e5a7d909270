// The unit in which an axis shows a quantity.
#pragma once

namespace troupe::pages {

struct axis_unit {
  const char* name;  ///< Empty for a count.
  double size;       ///< In seconds, bytes or samples.
};

/// Return the unit that suits values up to `largest`.
axis_unit unit_of_seconds(double largest);
axis_unit unit_of_bytes(double largest);
axis_unit unit_of_samples(double largest);

}  // namespace troupe::pages
