// A drawing in Graphviz's DOT language with fixed positions. It does not depend on plans.
// The edges of the DOT text are those of the plan. Panels, bundles and dashed lines are drawn in the background, so
// that a program that reads the edges does not find others. Units: points; y grows upwards.
#pragma once

#include "troupe/tools/drawing/colours.hpp"

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

/// A cubic Bézier curve from tip to tip.
struct curve {
  point first{}, handle_of_first{}, handle_of_last{}, last{};
};

/// Returns the curve that is the line between two points.
curve straight(point first, point last);

/// Lengths of the arrowheads at both ends of a curve; 0 for none.
struct heads {
  double at_first{0}, at_last{0};
};

/// Returns Graphviz HTML for text of one size and colour.
std::string font(double size, const std::string& colour, const std::string& text);
/// Returns Graphviz HTML in bold.
std::string bold(const std::string& html);

/// Collects the elements of a drawing. What is added to the background first is the lowest layer.
class canvas {
 public:
  /// Adds a box with a label. `more`: further DOT attributes, starting with a comma.
  void box(const std::string& name, point at, double width, double height, const palette& colours,
           const std::string& html, const std::string& more = {});

  /// Adds text without a box. It is centred, because its width depends on the font.
  void text(const std::string& name, point at, const std::string& html);

  /// Adds text with a background that hides the lines below it.
  void label(const std::string& name, point at, const std::string& background, const std::string& html);

  /// Adds an edge between two boxes.
  void edge(const std::string& from, const std::string& to, const curve& way, heads heads, const std::string& style);

  /// Adds an invisible edge, which is shown by a bundle in the background or by the second arrowhead of another edge.
  void unseen_edge(const std::string& from, const std::string& to, const curve& way, const std::string& style);

  /// Adds a frame around the boxes with these names, drawn below all boxes and lines.
  void cluster(const std::string& name, const rectangle& frame, const palette& colours,
               const std::vector<std::string>& members);

  /// Adds a filled rectangle with rounded corners to the background.
  void panel(const rectangle& frame, const std::string& fill, const std::string& line);

  /// Adds a line with arrowheads to the background.
  void stroke(point first, point last, heads heads, const std::string& colour, double width,
              const std::string& style = "solid");

  /// Returns the drawing as DOT. `frame`: the visible part.
  std::string dot(const std::string& heading, const rectangle& frame) const;

 private:
  std::string nodes_, edges_, clusters_, background_;
};

}  // namespace troupe
