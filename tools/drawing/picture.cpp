#include "troupe/tools/drawing/picture.hpp"

#include <algorithm>

namespace troupe {

rectangle box_at(point centre, double width, double height) {
  const point half{width / 2, height / 2};
  return {centre - half, centre + half};
}

rectangle box_at(point centre, const unit& unit) {
  return box_at(centre, unit.width, unit.height);
}

point middle(const rectangle& box) {
  return 0.5 * (box.low + box.high);
}

void include(rectangle& frame, const rectangle& more) {
  frame.low = {std::min(frame.low.x, more.low.x), std::min(frame.low.y, more.low.y)};
  frame.high = {std::max(frame.high.x, more.high.x), std::max(frame.high.y, more.high.y)};
}

point leaving(const rectangle& box, point inside, point way, double gap) {
  const auto reach = [](double from, double step, double low, double high) {
    if (step == 0) return 1e9;
    return ((step > 0 ? high : low) - from) / step;
  };
  const auto t = std::min(reach(inside.x, way.x, box.low.x - gap, box.high.x + gap),
                          reach(inside.y, way.y, box.low.y - gap, box.high.y + gap));
  return inside + t * way;
}

}  // namespace troupe
