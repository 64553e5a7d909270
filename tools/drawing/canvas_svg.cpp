// A drawing as SVG.
#include "troupe/runtime/support/xml.hpp"
#include "troupe/tools/drawing/canvas.hpp"
#include "troupe/tools/drawing/drawing_mark.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <tuple>

namespace troupe {

namespace {

constexpr double margin = 18;  // around the visible part

/// Returns a number with at most one digit after the point.
std::string svg_number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f", value);
  std::string shown = text.data();
  if (shown.ends_with(".0")) shown.resize(shown.size() - 2);
  return shown == "-0" ? "0" : shown;
}
/// In SVG, y grows downwards.
std::string svg_number(point p) {
  return svg_number(p.x) + "," + svg_number(-p.y);
}

std::string attribute(const std::string& name, const std::string& value) {
  return " " + name + "=\"" + value + "\"";
}

std::string svg_rectangle(const rectangle& frame, double radius, const std::string& fill, const std::string& line,
                          double border) {
  return "<rect" + attribute("x", svg_number(frame.low.x)) + attribute("y", svg_number(-frame.high.y)) +
         attribute("width", svg_number(frame.high.x - frame.low.x)) +
         attribute("height", svg_number(frame.high.y - frame.low.y)) +
         (radius > 0 ? attribute("rx", svg_number(radius)) : "") + attribute("fill", fill) +
         (line.empty() ? "" : attribute("stroke", line) + attribute("stroke-width", svg_number(border))) + "/>\n";
}

rectangle around(point centre, double width, double height) {
  const point half{width / 2, height / 2};
  return {centre - half, centre + half};
}

/// Height of a line of text, and how far its baseline is below its middle, in units of its size.
constexpr double line_height = 1.2, baseline = 0.35;

/// Returns lines of text whose middle is at `centre`.
std::string svg_text(point centre, const std::vector<words>& lines) {
  double height = 0;
  for (const auto& line : lines) height += line_height * line.size;
  auto top = centre.y + height / 2;
  std::string text;
  for (const auto& line : lines) {
    const auto middle = top - line_height * line.size / 2;
    text += "<text" + attribute("x", svg_number(centre.x)) +
            attribute("y", svg_number(-(middle - baseline * line.size))) +
            attribute("font-size", svg_number(line.size)) + (line.bold ? attribute("font-weight", "bold") : "") +
            attribute("fill", line.colour) + ">" + xml::escaped(line.text) + "</text>\n";
    top -= line_height * line.size;
  }
  return text;
}

/// Returns an arrowhead. `back`: the direction from its tip to its foot.
std::string svg_head(point tip, double length, point back, const std::string& colour) {
  const auto foot = tip + length * back, side = 0.35 * length * point{-back.y, back.x};
  return "<polygon" + attribute("fill", colour) + attribute("stroke", colour) +
         attribute("points", svg_number(tip) + " " + svg_number(foot + side) + " " + svg_number(foot - side)) + "/>\n";
}

std::string svg_path(const std::string& path, const pen& pen) {
  return "<path" + attribute("fill", "none") + attribute("stroke", pen.colour) +
         attribute("stroke-width", svg_number(pen.width)) + (pen.faint ? attribute("stroke-opacity", "0.22") : "") +
         (pen.dashed ? attribute("stroke-dasharray", "5,2") : "") + attribute("d", path) + "/>\n";
}

}  // namespace

std::string canvas::svg_of(const drawn_box& box) {
  const auto radius = std::min(12.0, std::min(box.width, box.height) / 3);
  return "<g class=\"node\">\n<title>" + xml::escaped(box.name) + "</title>\n" +
         svg_rectangle(around(box.at, box.width, box.height), radius, box.fill, box.line, box.border) +
         svg_text(box.at, box.lines) + "</g>\n";
}

std::string canvas::svg_of(const drawn_text& text) {
  if (text.background.empty()) return svg_text(text.at, {text.line});
  const auto frame = around(text.at, width_of(text.line.text, text.line.size) + 4, line_height * text.line.size + 4);
  return svg_rectangle(frame, 0, text.background, "", 0) + svg_text(text.at, {text.line});
}

std::string canvas::svg_of(const drawn_edge& edge) {
  if (!edge.seen) return {};
  const auto& [way, heads, colour] = std::tie(edge.way, edge.heads, edge.pen.colour);
  const auto back_of_first = towards(way.first, way.handle_of_first),
             back_of_last = towards(way.last, way.handle_of_last);
  const auto begin = way.first + heads.at_first * back_of_first, end = way.last + heads.at_last * back_of_last;
  return "<g class=\"edge\">\n<title>" + xml::escaped(edge.from + "->" + edge.to) + "</title>\n" +
         svg_path("M" + svg_number(begin) + "C" + svg_number(way.handle_of_first) + " " +
                      svg_number(way.handle_of_last) + " " + svg_number(end),
                  edge.pen) +
         (heads.at_first > 0 ? svg_head(way.first, heads.at_first, back_of_first, colour) : "") +
         (heads.at_last > 0 ? svg_head(way.last, heads.at_last, back_of_last, colour) : "") + "</g>\n";
}

std::string canvas::svg_of(const drawn_cluster& cluster) {
  return svg_rectangle(cluster.frame, 12, "none", cluster.line, 1.2);
}

std::string canvas::svg_of(const drawn_panel& panel) {
  return svg_rectangle(panel.frame, 14, panel.fill, panel.line, 1);
}

std::string canvas::svg_of(const drawn_stroke& stroke) {
  const auto& [first, last, heads, pen] = stroke;
  const auto way = towards(first, last);
  return svg_path("M" + svg_number(first + heads.at_first * way) + "L" + svg_number(last - heads.at_last * way), pen) +
         (heads.at_first > 0 ? svg_head(first, heads.at_first, way, pen.colour) : "") +
         (heads.at_last > 0 ? svg_head(last, heads.at_last, -1 * way, pen.colour) : "");
}

std::string canvas::svg(const rectangle& frame) const {
  const point border{margin, margin};
  const rectangle page{frame.low - border, frame.high + border};
  const auto width = svg_number(page.high.x - page.low.x), height = svg_number(page.high.y - page.low.y);
  std::string text =
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\"" +
      attribute("width", width + "pt") + attribute("height", height + "pt") +
      attribute("viewBox", svg_number(page.low.x) + " " + svg_number(-page.high.y) + " " + width + " " + height) +
      attribute("font-family", "Helvetica,Arial,sans-serif") + attribute("text-anchor", "middle") + ">\n<!-- " +
      drawing_mark + " -->\n" + dark_styles() + svg_rectangle(page, 0, colours::page, "", 0);
  const auto add = [&](const auto& element) { text += svg_of(element); };
  for (const auto& element : background_) std::visit(add, element);
  for (const auto& cluster : clusters_) add(cluster);
  for (const auto& edge : edges_) add(edge);
  for (const auto& node : nodes_) std::visit(add, node);
  return text + "</svg>\n";
}

}  // namespace troupe
