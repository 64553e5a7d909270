#include "troupe/tools/drawing/canvas.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace troupe {

curve straight(point first, point last) {
  return {first, first + 1.0 / 3 * (last - first), first + 2.0 / 3 * (last - first), last};
}

point towards(point from, point to) {
  const auto way = to - from;
  const auto length = std::sqrt(way.x * way.x + way.y * way.y);
  return length > 0 ? 1 / length * way : point{};
}

double width_of(const std::string& text, double size) {
  const auto letters = std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; });
  return 0.56 * size * static_cast<double>(letters);
}

void canvas::box(const std::string& name, point at, double width, double height, const palette& colours,
                 std::vector<words> lines, double border) {
  nodes_.emplace_back(drawn_box{name, at, width, height, colours.fill, colours.line, border, std::move(lines)});
}

void canvas::text(const std::string& name, point at, words line) {
  nodes_.emplace_back(drawn_text{name, at, {}, std::move(line)});
}

void canvas::label(const std::string& name, point at, const std::string& background, words line) {
  nodes_.emplace_back(drawn_text{name, at, background, std::move(line)});
}

void canvas::edge(const std::string& from, const std::string& to, const curve& way, heads heads, pen pen,
                  edge_facts facts) {
  edges_.push_back({from, to, way, heads, std::move(pen), std::move(facts), true});
}

void canvas::unseen_edge(const std::string& from, const std::string& to, const curve& way, edge_facts facts) {
  edges_.push_back({from, to, way, {}, {}, std::move(facts), false});
}

void canvas::cluster(const std::string& name, const rectangle& frame, const palette& colours,
                     std::vector<std::string> members) {
  panel(frame, colours.fill, colours.fill);
  clusters_.push_back({name, frame, colours.line, std::move(members)});
}

void canvas::panel(const rectangle& frame, const std::string& fill, const std::string& line) {
  background_.emplace_back(drawn_panel{frame, fill, line});
}

void canvas::stroke(point first, point last, heads heads, pen pen) {
  background_.emplace_back(drawn_stroke{first, last, heads, std::move(pen)});
}

}  // namespace troupe
