// A drawing in Graphviz's DOT language with fixed positions. It does not depend on plans.
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

/// Returns Graphviz HTML for text of one size and colour.
std::string font(double size, const std::string& colour, const std::string& text);
/// Returns Graphviz HTML in bold.
std::string bold(const std::string& html);

/// Collects the elements of a drawing.
class canvas {
 public:
  /// Adds a box with a label. `more`: further DOT attributes, starting with a comma.
  void box(const std::string& name, point at, double width, double height, const palette& colours,
           const std::string& html, const std::string& more = {});

  /// Adds text without a box. It is centred, because its width depends on the font.
  void text(const std::string& name, point at, const std::string& html);

  /// Adds text with a background that hides the lines below it.
  void label(const std::string& name, point at, const std::string& background, const std::string& html);

  /// Adds a line between two boxes, from tip to tip, with arrowheads of the given lengths (0: no arrowhead).
  void line(const std::string& from, const std::string& to, point first, point last, double head_at_first,
            double head_at_last, const std::string& style);

  /// Adds a frame around the boxes with these names, drawn below all boxes and lines.
  void cluster(const std::string& name, const rectangle& frame, const palette& colours,
               const std::vector<std::string>& members);

  /// Sets the background: a filled rectangle with rounded corners.
  void panel(const rectangle& frame, const std::string& colour);

  /// Returns the drawing as DOT. `frame`: the visible part.
  std::string dot(const std::string& heading, const rectangle& frame) const;

 private:
  std::string nodes_, edges_, clusters_, background_;
};

}  // namespace troupe
