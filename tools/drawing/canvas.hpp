// A drawing of boxes, text and arrows at fixed positions, written as SVG or in Graphviz's DOT language. It does not
// depend on plans. Units: points; y grows upwards.
#pragma once

#include "troupe/tools/drawing/colours.hpp"

#include <cstdint>
#include <string>
#include <variant>
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

/// A line of text of one size and colour.
struct words {
  double size{0};
  std::string colour, text;
  bool bold{false};
};

/// Returns an estimate of the width of a text: the font is not known here.
double width_of(const std::string& text, double size);

/// How a line is drawn.
struct pen {
  std::string colour;
  double width{1};
  bool dashed{false}, faint{false};
};

/// What an edge stands for, for programs that read the DOT text.
struct edge_facts {
  std::string exchange;
  std::uint64_t bytes{0};  ///< Per exchange.
};

/// Collects the elements of a drawing. What is added to the background first is the lowest layer.
class canvas {
 public:
  /// Adds a box with lines of text. `border`: width of its line.
  void box(const std::string& name, point at, double width, double height, const palette& colours,
           std::vector<words> lines, double border = 1.4);

  /// Adds text without a box. It is centred, because its width depends on the font.
  void text(const std::string& name, point at, words line);

  /// Adds text with a background that hides the lines below it.
  void label(const std::string& name, point at, const std::string& background, words line);

  /// Adds an edge between two boxes.
  void edge(const std::string& from, const std::string& to, const curve& way, heads heads, pen pen, edge_facts facts);

  /// Adds an edge that only the DOT text has: a bundle in the background or the second arrowhead of another edge shows
  /// it.
  void unseen_edge(const std::string& from, const std::string& to, const curve& way, edge_facts facts);

  /// Adds a frame around the boxes with these names, drawn below all boxes and lines.
  void cluster(const std::string& name, const rectangle& frame, const palette& colours,
               std::vector<std::string> members);

  /// Adds a filled rectangle with rounded corners to the background.
  void panel(const rectangle& frame, const std::string& fill, const std::string& line);

  /// Adds a line with arrowheads to the background.
  void stroke(point first, point last, heads heads, pen pen);

  /// Returns the drawing as DOT. The background is in the notation of xdot, and the edges are those of the plan, so
  /// that a program that reads the edges does not find others. `frame`: the visible part.
  std::string dot(const std::string& heading, const rectangle& frame) const;

  /// Returns the drawing as SVG, with dark colours for dark pages.
  std::string svg(const rectangle& frame) const;

 private:
  struct drawn_box {
    std::string name;
    point at;
    double width, height;
    std::string fill, line;
    double border;
    std::vector<words> lines;
  };
  struct drawn_text {
    std::string name;
    point at;
    std::string background;  ///< Empty for none.
    words line;
  };
  struct drawn_edge {
    std::string from, to;
    curve way;
    troupe::heads heads;
    troupe::pen pen;
    edge_facts facts;
    bool seen;
  };
  struct drawn_cluster {
    std::string name;
    rectangle frame;
    std::string line;
    std::vector<std::string> members;
  };
  struct drawn_panel {
    rectangle frame;
    std::string fill, line;
  };
  struct drawn_stroke {
    point first, last;
    troupe::heads heads;
    troupe::pen pen;
  };

  static std::string dot_of(const drawn_box& box);
  static std::string dot_of(const drawn_text& text);
  static std::string dot_of(const drawn_edge& edge);
  static std::string dot_of(const drawn_cluster& cluster);
  static std::string dot_of(const drawn_panel& panel);
  static std::string dot_of(const drawn_stroke& stroke);
  static std::string svg_of(const drawn_box& box);
  static std::string svg_of(const drawn_text& text);
  static std::string svg_of(const drawn_edge& edge);
  static std::string svg_of(const drawn_cluster& cluster);
  static std::string svg_of(const drawn_panel& panel);
  static std::string svg_of(const drawn_stroke& stroke);

  std::vector<std::variant<drawn_box, drawn_text>> nodes_;
  std::vector<drawn_edge> edges_;
  std::vector<drawn_cluster> clusters_;
  std::vector<std::variant<drawn_panel, drawn_stroke>> background_;
};

/// Returns the direction from one point to another as a vector of length 1, or of length 0 if they are the same.
point towards(point from, point to);

}  // namespace troupe
