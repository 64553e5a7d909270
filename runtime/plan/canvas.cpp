#include "troupe/runtime/plan/canvas.hpp"

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

std::string inches(double points) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4f", points / 72);
  return text.data();
}

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += c;
    }
  return safe;
}

}  // namespace

std::string font(double size, const std::string& colour, const std::string& text) {
  return "<font point-size=\"" + number(size) + "\" color=\"" + colour + "\">" + escaped(text) + "</font>";
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

void canvas::line(const std::string& from, const std::string& to, point first, point last, double head_at_first,
                  double head_at_last, const std::string& style) {
  const auto way = last - first;
  const auto unit = 1 / std::hypot(way.x, way.y) * way;
  const auto begin = first + head_at_first * unit;
  const auto end = last - head_at_last * unit;
  std::string spline;
  if (head_at_first > 0) spline += "s," + number(first) + " ";
  if (head_at_last > 0) spline += "e," + number(last) + " ";
  for (int i = 0; i < 4; ++i) spline += (i > 0 ? " " : "") + number(begin + i / 3.0 * (end - begin));
  const auto* heads =
      head_at_first > 0 ? (head_at_last > 0 ? "both" : "back") : (head_at_last > 0 ? "forward" : "none");
  edges_ += "  \"" + from + "\" -> \"" + to + "\" [pos=\"" + spline + "\", dir=" + heads + ", " + style + "]\n";
}

void canvas::cluster(const std::string& name, const rectangle& frame, const palette& colours,
                     const std::vector<std::string>& members) {
  clusters_ += "  subgraph \"cluster " + name + "\" {\n    graph [bb=\"" + number(frame) +
               "\", style=\"rounded,filled\", penwidth=1.2, fillcolor=\"" + colours.fill + "\", color=\"" +
               colours.line + "\"]\n   ";
  for (const auto& member : members) clusters_ += " \"" + member + "\"";
  clusters_ += "\n  }\n";
}

void canvas::panel(const rectangle& frame, const std::string& colour) {
  const auto [left, bottom] = frame.low;
  const auto [right, top] = frame.high;
  constexpr double r = 14, k = r * 0.4477;  // Bézier handles of a quarter circle
  std::string points;
  int count = 0;
  const auto add = [&](double x, double y) {
    points += " " + number(x) + " " + number(y);
    ++count;
  };
  const auto straight = [&](double x0, double y0, double x1, double y1) {
    add(x0 + (x1 - x0) / 3, y0 + (y1 - y0) / 3);
    add(x0 + 2 * (x1 - x0) / 3, y0 + 2 * (y1 - y0) / 3);
    add(x1, y1);
  };
  add(left + r, bottom);
  straight(left + r, bottom, right - r, bottom);
  add(right - k, bottom), add(right, bottom + k), add(right, bottom + r);
  straight(right, bottom + r, right, top - r);
  add(right, top - k), add(right - k, top), add(right - r, top);
  straight(right - r, top, left + r, top);
  add(left + k, top), add(left, top - k), add(left, top - r);
  straight(left, top - r, left, bottom + r);
  add(left, bottom + k), add(left + k, bottom), add(left + r, bottom);
  background_ = "c 7 -" + colour + " C 7 -" + colour + " b " + std::to_string(count) + points;
}

std::string canvas::dot(const std::string& heading, const rectangle& frame) const {
  return heading +
         "digraph troupe {\n"
         "  graph [layout=nop2, bb=\"" +
         number(frame) + "\", pad=0.25, bgcolor=white, outputorder=edgesfirst, _background=\"" + background_ +
         "\"]\n"
         "  node [shape=box, style=\"rounded,filled\", fixedsize=true, penwidth=1.4, "
         "fontname=\"Helvetica,Arial,sans-serif\"]\n"
         "  edge [arrowhead=normal, arrowtail=normal]\n" +
         nodes_ + clusters_ + edges_ + "}\n";
}

}  // namespace troupe
