// A drawing in Graphviz's DOT language whose positions are already worked out. It knows nothing of plans.
// Units: points; y grows upwards.
#pragma once

#include <string>
#include <vector>

namespace troupe {

struct point {
  double x{0}, y{0};
};
inline point operator+(point a, point b) {
  return {a.x + b.x, a.y + b.y};
}
inline point operator-(point a, point b) {
  return {a.x - b.x, a.y - b.y};
}
inline point operator*(double factor, point a) {
  return {factor * a.x, factor * a.y};
}

struct rectangle {
  point low{}, high{};
};

struct palette {
  const char *fill, *line, *text;
};

/// Graphviz's HTML for text in one size and colour.
std::string font(double size, const std::string& colour, const std::string& text);
std::string bold(const std::string& html);

/// Collects what is drawn.
class canvas {
 public:
  void box(const std::string& name, point at, double width, double height, const palette& colours,
           const std::string& html, const std::string& more = {});

  /// Text without a box; its width depends on the font, so it is centred.
  void text(const std::string& name, point at, const std::string& html);

  /// Text that covers what runs below it.
  void label(const std::string& name, point at, const std::string& background, const std::string& html);

  /// A line between two boxes, from tip to tip, with arrowheads of this length (0: none).
  void line(const std::string& from, const std::string& to, point first, point last, double head_at_first,
            double head_at_last, const std::string& style);

  /// A frame around the boxes of these names, below all of them and all lines.
  void cluster(const std::string& name, const rectangle& frame, const palette& colours,
               const std::vector<std::string>& members);

  /// A filled rectangle with round corners behind everything.
  void panel(const rectangle& frame, const std::string& colour);

  /// Returns the drawing, `frame` of which is shown.
  std::string dot(const std::string& heading, const rectangle& frame) const;

 private:
  std::string nodes_, edges_, clusters_, background_;
};

}  // namespace troupe
