// A drawing in Graphviz's DOT language.
#include "troupe/runtime/support/xml.hpp"
#include "troupe/tools/drawing/canvas.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <tuple>

namespace troupe {

namespace {

std::string dot_number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f", value == 0 ? 0.0 : value);  // no negative zero
  return text.data();
}
std::string dot_number(point p) {
  return dot_number(p.x) + "," + dot_number(p.y);
}
std::string dot_number(const rectangle& frame) {
  return dot_number(frame.low) + "," + dot_number(frame.high);
}

/// Returns text in the notation of xdot: its length, then the text.
std::string with_length(const std::string& text) {
  return std::to_string(text.size()) + " -" + text;
}

std::string inches(double points) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4f", points / 72);
  return text.data();
}

/// Returns a line of text in Graphviz's HTML.
std::string html(const words& line) {
  const auto text = "<font point-size=\"" + dot_number(line.size) + "\" color=\"" + line.colour + "\">" +
                    xml::escaped(line.text) + "</font>";
  return line.bold ? "<b>" + text + "</b>" : text;
}

std::string look_of(const pen& pen, heads heads) {
  constexpr auto* faint = "38";  // opacity
  const auto longest = std::max(heads.at_first, heads.at_last);
  return "color=\"" + pen.colour + (pen.faint ? faint : "") + "\", penwidth=" + dot_number(pen.width) +
         (longest > 0 ? ", arrowsize=" + dot_number(longest / 10) : "") + (pen.dashed ? ", style=dashed" : "");
}

}  // namespace

std::string canvas::dot_of(const drawn_box& box) {
  std::string label;
  for (const auto& line : box.lines) label += (label.empty() ? "" : "<br/>") + html(line);
  return "  \"" + box.name + "\" [pos=\"" + dot_number(box.at) + "\", width=" + inches(box.width) +
         ", height=" + inches(box.height) + ", fillcolor=\"" + box.fill + "\", color=\"" + box.line +
         "\", penwidth=" + dot_number(box.border) + ", label=<" + (label.empty() ? " " : label) + ">]\n";
}

std::string canvas::dot_of(const drawn_text& text) {
  auto label = html(text.line);
  if (!text.background.empty())
    label = "<table border=\"0\" cellborder=\"0\" cellpadding=\"2\" bgcolor=\"" + text.background + "\"><tr><td>" +
            label + "</td></tr></table>";
  return "  \"" + text.name + "\" [shape=plain, style=\"\", fixedsize=false, pos=\"" + dot_number(text.at) +
         "\", label=<" + label + ">]\n";
}

std::string canvas::dot_of(const drawn_edge& edge) {
  const auto& [way, heads] = std::tie(edge.way, edge.heads);
  const auto begin = way.first + heads.at_first * towards(way.first, way.handle_of_first);
  const auto end = way.last + heads.at_last * towards(way.last, way.handle_of_last);
  std::string spline;
  if (heads.at_first > 0) spline += "s," + dot_number(way.first) + " ";
  if (heads.at_last > 0) spline += "e," + dot_number(way.last) + " ";
  spline += dot_number(begin) + " " + dot_number(way.handle_of_first) + " " + dot_number(way.handle_of_last) + " " +
            dot_number(end);
  const auto* direction =
      heads.at_first > 0 ? (heads.at_last > 0 ? "both" : "back") : (heads.at_last > 0 ? "forward" : "none");
  return "  \"" + edge.from + "\" -> \"" + edge.to + "\" [pos=\"" + spline + "\", dir=" + direction + ", " +
         (edge.seen ? look_of(edge.pen, heads) : "style=invis") + ", exchange=\"" + edge.facts.exchange +
         "\", bytes=" + std::to_string(edge.facts.bytes) + "]\n";
}

std::string canvas::dot_of(const drawn_cluster& cluster) {
  auto text = "  subgraph \"cluster " + cluster.name + "\" {\n    graph [bb=\"" + dot_number(cluster.frame) +
              "\", style=rounded, bgcolor=transparent, penwidth=1.2, color=\"" + cluster.line + "\"]\n   ";
  for (const auto& member : cluster.members) text += " \"" + member + "\"";
  return text + "\n  }\n";
}

std::string canvas::dot_of(const drawn_panel& panel) {
  const auto [left, bottom] = panel.frame.low;
  const auto [right, top] = panel.frame.high;
  constexpr double r = 14, k = r * 0.4477;  // Bézier handles of a quarter circle
  std::string points;
  int count = 0;
  const auto add = [&](double x, double y) {
    points += " " + dot_number(x) + " " + dot_number(y);
    ++count;
  };
  const auto side = [&](double x0, double y0, double x1, double y1) {
    add(x0 + (x1 - x0) / 3, y0 + (y1 - y0) / 3);
    add(x0 + 2 * (x1 - x0) / 3, y0 + 2 * (y1 - y0) / 3);
    add(x1, y1);
  };
  add(left + r, bottom);
  side(left + r, bottom, right - r, bottom);
  add(right - k, bottom), add(right, bottom + k), add(right, bottom + r);
  side(right, bottom + r, right, top - r);
  add(right, top - k), add(right - k, top), add(right - r, top);
  side(right - r, top, left + r, top);
  add(left + k, top), add(left, top - k), add(left, top - r);
  side(left, top - r, left, bottom + r);
  add(left, bottom + k), add(left + k, bottom), add(left + r, bottom);
  return " c " + with_length(panel.line) + " C " + with_length(panel.fill) + " b " + std::to_string(count) + points;
}

std::string canvas::dot_of(const drawn_stroke& stroke) {
  const auto& [first, last, heads, pen] = stroke;
  const auto way = towards(first, last);
  std::string arrowheads;
  const auto head = [&](point tip, double length, point back) {
    const point across{-back.y, back.x};
    const auto foot = tip + length * back, side = 0.36 * length * across;
    arrowheads += " P 3";
    for (const auto& corner : {tip, foot + side, foot - side})
      arrowheads += " " + dot_number(corner.x) + " " + dot_number(corner.y);
  };
  if (heads.at_first > 0) head(first, heads.at_first, way);
  if (heads.at_last > 0) head(last, heads.at_last, -1 * way);
  const auto from = first + heads.at_first * way, to = last - heads.at_last * way;
  return " c " + with_length(pen.colour) + " C " + with_length(pen.colour) + " S " +
         with_length("setlinewidth(" + dot_number(pen.width) + ")") + " S " +
         with_length(pen.dashed ? "dashed" : "solid") + " L 2 " + dot_number(from.x) + " " + dot_number(from.y) + " " +
         dot_number(to.x) + " " + dot_number(to.y) + " S " + with_length("solid") + arrowheads;
}

std::string canvas::dot(const std::string& heading, const rectangle& frame) const {
  const auto all_of = [](const auto& elements) {
    std::string text;
    for (const auto& element : elements) text += dot_of(element);
    return text;
  };
  const auto each_of = [](const auto& elements) {
    std::string text;
    for (const auto& element : elements) text += std::visit([](const auto& one) { return dot_of(one); }, element);
    return text;
  };
  return heading + "digraph troupe {\n  graph [layout=nop2, bb=\"" + dot_number(frame) + "\", pad=0.25, bgcolor=\"" +
         colours::page + "\", outputorder=edgesfirst, _background=\"" + each_of(background_) +
         "\"]\n"
         "  node [shape=box, style=\"rounded,filled\", fixedsize=true, fontname=\"Helvetica,Arial,sans-serif\"]\n"
         "  edge [arrowhead=normal, arrowtail=normal]\n" +
         each_of(nodes_) + all_of(clusters_) + all_of(edges_) + "}\n";
}

}  // namespace troupe
