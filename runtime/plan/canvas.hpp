// A drawing in Graphviz's DOT language whose positions are already worked out. It knows nothing of plans.
// Nodes, edges and clusters of the DOT text are what the plan holds. All that is drawn besides them (panels, bundles of
// edges, dashed lines) lies in the background, so that a program that reads the edges finds no others.
// Units: points; y grows upwards.
#pragma once

#include "troupe/runtime/plan/colours.hpp"

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

/// Lengths of the arrowheads at both ends of a curve; 0: none.
struct heads {
  double at_first{0}, at_last{0};
};

/// Graphviz's HTML for text in one size and colour.
std::string font(double size, const std::string& colour, const std::string& text);
std::string bold(const std::string& html);

/// Collects what is drawn. What is added to the background first lies lowest.
class canvas {
 public:
  void box(const std::string& name, point at, double width, double height, const palette& colours,
           const std::string& html, const std::string& more = {});

  /// Text without a box; its width depends on the font, so it is centred.
  void text(const std::string& name, point at, const std::string& html);

  /// Text that covers what runs below it.
  void label(const std::string& name, point at, const std::string& background, const std::string& html);

  /// An edge between two boxes.
  void edge(const std::string& from, const std::string& to, const curve& way, heads heads, const std::string& style);

  /// An edge that is not drawn: the background shows it in some other way, or the edge back has an arrowhead for it.
  void unseen_edge(const std::string& from, const std::string& to, const curve& way, const std::string& style);

  /// A frame around the boxes of these names.
  void cluster(const std::string& name, const rectangle& frame, const palette& colours,
               const std::vector<std::string>& members);

  /// A filled rectangle with round corners, in the background.
  void panel(const rectangle& frame, const std::string& fill, const std::string& line);

  /// A line with arrowheads, in the background.
  void stroke(point first, point last, heads heads, const std::string& colour, double width,
              const std::string& style = "solid");

  /// Returns the drawing, `frame` of which is shown.
  std::string dot(const std::string& heading, const rectangle& frame) const;

 private:
  std::string nodes_, edges_, clusters_, background_;
};

}  // namespace troupe
