#include "troupe/tools/drawing/canvas.hpp"

#include "troupe/runtime/support/xml.hpp"

#include <array>
#include <cmath>
#include <cstdio>

namespace troupe {

namespace {

std::string number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f", value == 0 ? 0.0 : value);  // no negative zero
  return text.data();
}
std::string number(point p) {
  return number(p.x) + "," + number(p.y);
}

std::string number(const rectangle& frame) {
  return number(frame.low) + "," + number(frame.high);
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

/// Returns the direction from one point to another as a vector of length 1, or of length 0 if they are the same.
point towards(point from, point to) {
  const auto way = to - from;
  const auto length = std::hypot(way.x, way.y);
  return length > 0 ? 1 / length * way : point{};
}

}  // namespace

curve straight(point first, point last) {
  return {first, first + 1.0 / 3 * (last - first), first + 2.0 / 3 * (last - first), last};
}

std::string font(double size, const std::string& colour, const std::string& text) {
  return "<font point-size=\"" + number(size) + "\" color=\"" + colour + "\">" + xml::escaped(text) + "</font>";
}
std::string bold(const std::string& html) {
  return "<b>" + html + "</b>";
}

void canvas::box(const std::string& name, point at, double width, double height, const palette& colours,
                 const std::string& html, const std::string& more) {
  nodes_ += "  \"" + name + "\" [pos=\"" + number(at) + "\", width=" + inches(width) + ", height=" + inches(height) +
            ", fillcolor=\"" + colours.fill + "\", color=\"" + colours.line + "\"" + more + ", label=<" + html + ">]\n";
}

void canvas::text(const std::string& name, point at, const std::string& html) {
  nodes_ += "  \"" + name + "\" [shape=plain, style=\"\", fixedsize=false, pos=\"" + number(at) + "\", label=<" + html +
            ">]\n";
}

void canvas::label(const std::string& name, point at, const std::string& background, const std::string& html) {
  text(name, at,
       "<table border=\"0\" cellborder=\"0\" cellpadding=\"2\" bgcolor=\"" + background + "\"><tr><td>" + html +
           "</td></tr></table>");
}

void canvas::edge(const std::string& from, const std::string& to, const curve& way, heads heads,
                  const std::string& style) {
  const auto begin = way.first + heads.at_first * towards(way.first, way.handle_of_first);
  const auto end = way.last + heads.at_last * towards(way.last, way.handle_of_last);
  std::string spline;
  if (heads.at_first > 0) spline += "s," + number(way.first) + " ";
  if (heads.at_last > 0) spline += "e," + number(way.last) + " ";
  spline += number(begin) + " " + number(way.handle_of_first) + " " + number(way.handle_of_last) + " " + number(end);
  const auto* direction =
      heads.at_first > 0 ? (heads.at_last > 0 ? "both" : "back") : (heads.at_last > 0 ? "forward" : "none");
  edges_ += "  \"" + from + "\" -> \"" + to + "\" [pos=\"" + spline + "\", dir=" + direction + ", " + style + "]\n";
}

void canvas::unseen_edge(const std::string& from, const std::string& to, const curve& way, const std::string& style) {
  edge(from, to, way, {}, "style=invis, " + style);
}

void canvas::cluster(const std::string& name, const rectangle& frame, const palette& colours,
                     const std::vector<std::string>& members) {
  panel(frame, colours.fill, colours.fill);
  clusters_ += "  subgraph \"cluster " + name + "\" {\n    graph [bb=\"" + number(frame) +
               "\", style=rounded, bgcolor=transparent, penwidth=1.2, color=\"" + colours.line + "\"]\n   ";
  for (const auto& member : members) clusters_ += " \"" + member + "\"";
  clusters_ += "\n  }\n";
}

void canvas::panel(const rectangle& frame, const std::string& fill, const std::string& line) {
  const auto [left, bottom] = frame.low;
  const auto [right, top] = frame.high;
  constexpr double r = 14, k = r * 0.4477;  // Bézier handles of a quarter circle
  std::string points;
  int count = 0;
  const auto add = [&](double x, double y) {
    points += " " + number(x) + " " + number(y);
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
  background_ += " c " + with_length(line) + " C " + with_length(fill) + " b " + std::to_string(count) + points;
}

void canvas::stroke(point first, point last, heads heads, const std::string& colour, double width,
                    const std::string& style) {
  const auto way = towards(first, last);
  const point across{-way.y, way.x};
  const auto head = [&](point tip, point back) {
    const auto foot = tip + back, side = 0.36 * std::hypot(back.x, back.y) * across;
    background_ += " P 3";
    for (const auto& corner : {tip, foot + side, foot - side})
      background_ += " " + number(corner.x) + " " + number(corner.y);
  };
  const auto from = first + heads.at_first * way, to = last - heads.at_last * way;
  background_ += " c " + with_length(colour) + " C " + with_length(colour) + " S " +
                 with_length("setlinewidth(" + number(width) + ")") + " S " + with_length(style) + " L 2 " +
                 number(from.x) + " " + number(from.y) + " " + number(to.x) + " " + number(to.y) + " S " +
                 with_length("solid");
  if (heads.at_first > 0) head(first, heads.at_first * way);
  if (heads.at_last > 0) head(last, -heads.at_last * way);
}

std::string canvas::dot(const std::string& heading, const rectangle& frame) const {
  return heading +
         "digraph troupe {\n"
         "  graph [layout=nop2, bb=\"" +
         number(frame) + "\", pad=0.25, bgcolor=\"" + colours::page + "\", outputorder=edgesfirst, _background=\"" +
         background_ +
         "\"]\n"
         "  node [shape=box, style=\"rounded,filled\", fixedsize=true, penwidth=1.4, "
         "fontname=\"Helvetica,Arial,sans-serif\"]\n"
         "  edge [arrowhead=normal, arrowtail=normal]\n" +
         nodes_ + clusters_ + edges_ + "}\n";
}

}  // namespace troupe
