#include "troupe/tools/drawing/ties.hpp"

#include "troupe/runtime/support/units.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

namespace troupe {

namespace {

/// More lines than this are a tangle.
constexpr std::size_t lines_max = 24, pairs_max = 12, complete_max = 6;

bool is_both_ways(const tie& tie) {
  return tie.there && tie.back;
}

/// Returns whether the tie is with a shared memory, which is read and written, so that nothing is sent.
bool sends_nothing(const tie& tie) {
  return tie.bytes_there == 0 && tie.bytes_back == 0;
}

std::string amount(const tie& tie) {
  if (tie.bytes_there == 0 || tie.bytes_back == 0) return human_bytes(tie.bytes_there + tie.bytes_back);
  if (tie.bytes_there == tie.bytes_back) return human_bytes(tie.bytes_there);  // the same in both directions
  return human_bytes(tie.bytes_there) + " / " + human_bytes(tie.bytes_back);
}

/// Returns the middle of the visible part of a tie. Between two frames, that is the part outside both.
point middle_of(const picture& drawn, const tie& tie, point first, point last) {
  const auto a = drawn.units[tie.a].region;
  const auto b = drawn.units[tie.b].region;
  if (a == b || drawn.frames.empty()) return 0.5 * (first + last);
  return 0.5 * (leaving(drawn.frames[a].border, first, last - first, 0) +
                leaving(drawn.frames[b].border, last, first - last, 0));
}

rectangle box_of(const picture& drawn, std::uint32_t unit) {
  return box_at(drawn.places[unit], drawn.units[unit]);
}

constexpr double gap = 4;

/// Returns the line between the boxes of a tie, next to the other ties between them.
curve line_of(const picture& drawn, const tie& tie) {
  const auto from = drawn.places[tie.a], to = drawn.places[tie.b];
  const auto way = to - from;
  const auto length = std::hypot(way.x, way.y);
  const auto aside = 14 * (static_cast<double>(tie.lane) - (static_cast<double>(tie.lanes) - 1) / 2);
  const point shift{-way.y / length * aside, way.x / length * aside};
  return straight(leaving(box_of(drawn, tie.a), from + shift, way, gap),
                  leaving(box_of(drawn, tie.b), to + shift, -1 * way, gap));
}

/// Returns the arc of a tie that goes around boxes. It leaves both of its boxes on the same side, each from the outer
/// half.
curve arc_of(const picture& drawn, const tie& tie) {
  const auto outward = [&](std::uint32_t unit, double sign) {
    const point along{tie.bow.x == 0 ? sign * drawn.units[unit].width / 4 : 0,
                      tie.bow.y == 0 ? -sign * drawn.units[unit].height / 4 : 0};
    return leaving(box_of(drawn, unit), drawn.places[unit] + along, tie.bow, gap);
  };
  const auto first = outward(tie.a, -1), last = outward(tie.b, 1);
  return {first, first + 1.25 * tie.bow, last + 1.25 * tie.bow, last};
}

/// Draws a tie as one line, with an edge for each direction: the first edge is the line, the second is invisible.
void draw_tie(canvas& drawing, const picture& drawn, const tie& tie, const std::string& exchange, bool dense) {
  const auto way = tie.bow.x == 0 && tie.bow.y == 0 ? line_of(drawn, tie) : arc_of(drawn, tie);
  const curve backwards{way.last, way.handle_of_last, way.handle_of_first, way.first};
  const auto style = drawn.styles[tie.exchange];
  const bool faint = style == tie_style::faint && tie.a != first_unit_of(drawn, tie.exchange) &&
                     tie.b != first_unit_of(drawn, tie.exchange);
  const bool unseen = style == tie_style::bundle || style == tie_style::bus;
  const double head = faint ? 0 : dense ? 7 : 9;
  const pen pen{.colour = colours::of_exchange(tie.exchange),
                .width = faint   ? 1.2
                         : dense ? 1.4
                                 : 1.8,
                .dashed = drawn.changing[tie.exchange],
                .faint = faint};
  const auto& [a, b] = std::tie(drawn.units[tie.a].name, drawn.units[tie.b].name);
  const edge_facts there{exchange, tie.bytes_there}, back{exchange, tie.bytes_back};
  const bool two_headed = is_both_ways(tie) || sends_nothing(tie);
  if (unseen) {
    if (tie.there) drawing.unseen_edge(a, b, way, there);
    if (tie.back) drawing.unseen_edge(b, a, backwards, back);
  } else if (tie.there) {
    drawing.edge(a, b, way, {two_headed ? head : 0, head}, pen, there);
    if (tie.back) drawing.unseen_edge(b, a, backwards, back);
  } else {
    drawing.edge(b, a, backwards, {two_headed ? head : 0, head}, pen, back);
  }
  if (!has_labels(drawn) || sends_nothing(tie)) return;
  const auto region = drawn.units[tie.a].region;
  const bool in_frame = !drawn.frames.empty() && region == drawn.units[tie.b].region;
  drawing.label("traffic " + std::to_string(tie.a) + " " + std::to_string(tie.b) + " " + std::to_string(tie.exchange),
                middle_of(drawn, tie, way.first, way.last),
                in_frame ? drawn.regions[region].colours->fill : colours::panel,
                {small_text, colours::of_exchange(tie.exchange), amount(tie)});
}

std::vector<std::size_t> exchanges_drawn_as(const picture& drawn, tie_style style) {
  std::vector<std::size_t> exchanges;
  for (std::size_t place = 0; place < drawn.styles.size(); ++place)
    if (drawn.styles[place] == style) exchanges.push_back(place);
  return exchanges;
}

/// Draws the hub, and for each bundled exchange a line from each unit to it.
void draw_bundles(canvas& drawing, const picture& drawn) {
  if (!drawn.hub) return;
  const auto bundles = exchanges_drawn_as(drawn, tie_style::bundle);
  const auto centre = middle(*drawn.hub);
  for (std::uint32_t unit = 0; unit < drawn.units.size(); ++unit) {
    const auto from = drawn.places[unit];
    const auto way = centre - from;
    const auto length = std::hypot(way.x, way.y);
    for (std::size_t i = 0; i < bundles.size(); ++i) {
      const auto aside = 8 * (static_cast<double>(i) - (static_cast<double>(bundles.size()) - 1) / 2);
      const point shift{-way.y / length * aside, way.x / length * aside};
      drawing.stroke(leaving(box_of(drawn, unit), from + shift, way, gap),
                     leaving(*drawn.hub, centre + shift, -1 * way, gap), {8, 8},
                     {colours::of_exchange(bundles[i]), 1.6, drawn.changing[bundles[i]]});
    }
  }
  drawing.panel(*drawn.hub, colours::page, colours::of_exchange(bundles.front()));
  const double line = 17;
  for (std::size_t i = 0; i < drawn.hub_text.size(); ++i) {
    const auto below = line * (static_cast<double>(i) - (static_cast<double>(drawn.hub_text.size()) - 1) / 2);
    drawing.text("hub " + std::to_string(i), centre - point{0, below},
                 {small_text + 0.5, drawn.hub_text[i].colour, drawn.hub_text[i].text});
  }
}

/// Draws the bars, and a line from each unit to the bar next to it. Servers are between both bars.
void draw_bus(canvas& drawing, const picture& drawn) {
  if (drawn.bars.empty()) return;
  const std::string colour = colours::of_exchange(exchanges_drawn_as(drawn, tie_style::bus).front());
  for (std::size_t bar = 0; bar < drawn.bars.size(); ++bar) {
    const auto height = drawn.bars[bar];
    std::optional<rectangle> reach;
    for (std::uint32_t unit = 0; unit < drawn.units.size(); ++unit) {
      const auto at = drawn.places[unit];
      const bool its_own = drawn.units[unit].server || (bar == 0 ? at.y > height : at.y < height);
      if (!its_own) continue;
      const point end{at.x, height};
      drawing.stroke(leaving(box_of(drawn, unit), at, end - at, gap), end, {8, 0}, {colour, 1.6});
      if (!reach) reach = rectangle{end, end};
      include(*reach, {end, end});
    }
    if (reach) drawing.stroke(reach->low - point{8, 0}, reach->high + point{8, 0}, {}, {colour, 4});
  }
}

}  // namespace

void set_lanes(picture& drawn) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> between;
  for (auto& tie : drawn.ties) tie.lane = between[{tie.a, tie.b}]++;
  for (auto& tie : drawn.ties) tie.lanes = between[{tie.a, tie.b}];
}

std::optional<std::uint32_t> centre_of(const picture& drawn) {
  if (drawn.units.size() < 3 || drawn.ties.empty()) return {};
  for (const auto candidate : {drawn.ties.front().a, drawn.ties.front().b})
    if (std::all_of(drawn.ties.begin(), drawn.ties.end(),
                    [&](const auto& tie) { return tie.a == candidate || tie.b == candidate; }))
      return candidate;
  return {};
}

tie_style style_of(const picture& drawn, std::size_t exchange) {
  const auto units = drawn.units.size();
  const auto servers = static_cast<std::size_t>(
      std::count_if(drawn.units.begin(), drawn.units.end(), [](const auto& unit) { return unit.server; }));
  std::size_t ties = 0, with_servers = 0, both_ways = 0;
  for (const auto& tie : drawn.ties) {
    if (tie.exchange != exchange) continue;
    ++ties;
    both_ways += is_both_ways(tie) ? 1 : 0;
    with_servers += drawn.units[tie.a].server != drawn.units[tie.b].server ? 1 : 0;
  }
  if (both_ways == ties && servers == 0 && units > complete_max && ties == units * (units - 1) / 2)
    return tie_style::bundle;
  if (ties == drawn.ties.size() && both_ways == ties && with_servers == ties && drawn.regions.size() == 1 &&
      servers > 1 && servers <= 12 && units - servers > 1 && ties == servers * (units - servers) && ties > pairs_max)
    return tie_style::bus;
  return ties > lines_max ? tie_style::faint : tie_style::lines;
}

bool has_labels(const picture& drawn) {
  return drawn.ties.size() <= 8 && drawn.ties.size() <= drawn.units.size() &&
         std::all_of(drawn.ties.begin(), drawn.ties.end(), [&](const auto& tie) {
           const auto way = drawn.places[tie.b] - drawn.places[tie.a];
           const auto room = drawn.units[tie.a].width / 2 + drawn.units[tie.b].width / 2 + 90;
           return std::abs(way.x) >= room || std::abs(way.y) >= 80;
         });
}

std::uint32_t first_unit_of(const picture& drawn, std::size_t exchange) {
  auto first = static_cast<std::uint32_t>(drawn.units.size());
  for (const auto& tie : drawn.ties)
    if (tie.exchange == exchange) first = std::min(first, tie.a);
  return first;
}

void draw_ties(canvas& drawing, const picture& drawn, const std::vector<std::string>& names) {
  draw_bundles(drawing, drawn);
  draw_bus(drawing, drawn);
  const bool dense = drawn.ties.size() > 12;
  for (const bool above : {false, true})  // faint ties are below the others
    for (const auto& tie : drawn.ties) {
      const auto first = first_unit_of(drawn, tie.exchange);
      if ((tie.a == first || tie.b == first) == above) draw_tie(drawing, drawn, tie, names[tie.exchange], dense);
    }
}

}  // namespace troupe
