#include "troupe/tools/drawing/layout.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>

namespace troupe {

namespace {

constexpr double content_max = width_max - margins;

/// Returns the minimum distances between boxes: enough for a label on a line, or only for the line.
point gap_of(const picture& drawn) {
  if (drawn.units.size() <= 6) return {104, 58};
  return drawn.units.size() <= 8 ? point{60, 44} : point{30, 30};
}

bool apart(const rectangle& a, const rectangle& b, point gap) {
  return a.low.x >= b.high.x + gap.x || b.low.x >= a.high.x + gap.x || a.low.y >= b.high.y + gap.y ||
         b.low.y >= a.high.y + gap.y;
}

bool room_between(const std::vector<rectangle>& boxes, point gap) {
  for (std::size_t i = 0; i < boxes.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (!apart(boxes[i], boxes[j], gap)) return false;
  return true;
}

/// Half of the width and height of an ellipse.
struct ellipse {
  double width{0}, height{0};
};

/// Returns the smallest ellipse that has room, if there is one no taller than three times its maximum width. With boxes
/// of width `widest` on its rim, it is at most `page` times as wide as the page.
template <class HasRoom>
std::optional<ellipse> smallest_ellipse(const picture& drawn, double widest, double page, HasRoom has_room) {
  const double shape = drawn.hub ? 1.6 : drawn.units.size() <= 8 ? 1.8 : 1.3;
  const double most = (page * content_max - widest) / 2;
  for (double height = 40; height <= 3 * most; height += 4)
    if (const ellipse tried{std::min(shape * height, most), height}; has_room(tried)) return tried;
  return {};
}

/// Returns such an ellipse on a page as wide as necessary.
template <class HasRoom>
ellipse some_ellipse(const picture& drawn, double widest, HasRoom has_room) {
  for (const double page : {1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0})
    if (const auto found = smallest_ellipse(drawn, widest, page, has_room)) return *found;
  return {20'000, 10'000};
}

point on_rim(const ellipse& of, double turn) {
  const auto angle = std::numbers::pi * (0.5 - 2 * turn);
  return {of.width * std::cos(angle), of.height * std::sin(angle)};
}

/// Returns `count` places in a row that is centred at `at`.
std::vector<point> row_of(std::size_t count, point at, double step) {
  std::vector<point> places;
  for (std::size_t i = 0; i < count; ++i)
    places.push_back({at.x + step * (static_cast<double>(i) - (static_cast<double>(count) - 1) / 2), at.y});
  return places;
}

template <class Counts>
double widest_of(const picture& drawn, Counts counts) {
  double widest = 0;
  for (const auto& unit : drawn.units)
    if (counts(unit)) widest = std::max(widest, unit.width);
  return widest;
}

double widest_of(const picture& drawn) {
  return widest_of(drawn, [](const auto&) { return true; });
}

/// Returns the places of `drawn.units` on an ellipse, clockwise in rank order. The units of `inside` are in a row in
/// the ellipse, as is the hub of a bundle. The ellipse is as small as its contents and the boxes on its rim allow.
std::vector<point> places_on_ellipse(const picture& drawn, const std::vector<std::uint32_t>& inside) {
  const auto is_inside = [&](std::uint32_t i) { return std::find(inside.begin(), inside.end(), i) != inside.end(); };
  const auto around = drawn.units.size() - inside.size();
  const auto row = row_of(inside.size(), {0, 0}, widest_of(drawn) + 30);
  const auto places_at = [&](const ellipse& rim) {
    std::vector<point> places;
    std::size_t seen = 0;
    std::size_t seen_inside = 0;
    for (std::uint32_t i = 0; i < drawn.units.size(); ++i) {
      // With an odd number of units, the first is at the top. With an even number, it is left of the middle, so that
      // ranks read like text on a page.
      const auto turn = (static_cast<double>(seen) - (around % 2 == 0 ? 0.5 : 0.0)) / static_cast<double>(around);
      if (is_inside(i))
        places.push_back(row[seen_inside++]);
      else
        places.push_back(on_rim(rim, turn)), ++seen;
    }
    return places;
  };
  if (around == 1 && inside.empty()) return {{0, 0}};
  const auto has_room = [&](const ellipse& rim) {
    const auto places = places_at(rim);
    std::vector<rectangle> outer, inner;
    for (std::uint32_t i = 0; i < places.size(); ++i)
      (is_inside(i) ? inner : outer).push_back(box_at(places[i], drawn.units[i]));
    if (drawn.hub) inner.push_back(*drawn.hub);
    const auto room = drawn.units.size() <= 6 ? point{94, 48} : point{44, 44};
    const auto clear = [&](const rectangle& box) {
      return std::all_of(inner.begin(), inner.end(), [&](const auto& in) { return apart(box, in, room); });
    };
    return room_between(outer, gap_of(drawn)) && std::all_of(outer.begin(), outer.end(), clear);
  };
  return places_at(some_ellipse(drawn, widest_of(drawn), has_room));
}

std::vector<std::uint32_t> servers_of(const picture& drawn) {
  std::vector<std::uint32_t> servers;
  for (std::uint32_t i = 0; i < drawn.units.size(); ++i)
    if (drawn.units[i].server) servers.push_back(i);
  return servers;
}

/// Returns places in rows: the workers above the servers or, from six workers on, half of them below. Then no line runs
/// behind a box. A bus runs between the rows.
std::vector<point> places_in_rows(picture& drawn) {
  const auto servers = servers_of(drawn).size();
  const auto workers = drawn.units.size() - servers;
  const bool bus = std::find(drawn.styles.begin(), drawn.styles.end(), tie_style::bus) != drawn.styles.end();
  const auto worker_width = widest_of(drawn, [](const auto& unit) { return !unit.server; });
  const auto server_width = widest_of(drawn, [](const auto& unit) { return unit.server; });
  const auto fit = static_cast<std::size_t>((content_max + 12) / (worker_width + 12));
  const auto below = workers > (bus ? fit : 5) ? workers / 2 : 0;
  const auto above = workers - below;
  const auto across = std::max(above, below);
  const auto step_within = [](std::size_t count, double width, double most) {
    const auto step = (content_max - width) / static_cast<double>(std::max<std::size_t>(count, 2) - 1);
    return std::min(step, most);
  };
  const auto step = step_within(across, worker_width, worker_width + (bus ? 24 : 60));
  const double apart = bus ? 110 : std::clamp(28.0 * static_cast<double>(std::max(across, servers)), 130.0, 300.0);
  auto places = row_of(above, {0, apart}, step);
  const auto low = row_of(below, {0, -apart}, step);
  places.insert(places.end(), low.begin(), low.end());
  // The servers spread over the width of the workers, so that lines meet them from all sides.
  const auto width = step * static_cast<double>(across - 1);
  const auto spread = width / static_cast<double>(std::max<std::size_t>(servers, 1));
  const auto server_step = std::min(std::clamp(spread, server_width + 24, 2 * server_width + 60),
                                    step_within(servers, server_width, content_max));
  // Servers that do not fit in one row form several rows.
  const auto in_row = static_cast<std::size_t>((content_max + 24) / (server_width + 24));
  const auto rows = (servers + in_row - 1) / in_row;
  for (std::size_t row = 0; row < rows; ++row) {
    const auto in_this_row = std::min(in_row, servers - row * in_row);
    // A line to the second row passes between two servers of the first.
    const auto between = std::max(server_step, server_width + 24);
    const point at{row % 2 == 1 && in_this_row % 2 == in_row % 2 ? between / 2 : 0, -66 * static_cast<double>(row)};
    const auto middle_row = row_of(in_this_row, at, between);
    places.insert(places.end(), middle_row.begin(), middle_row.end());
  }
  const double deeper = 66 * (static_cast<double>(rows) - 1);
  for (std::size_t i = above; i < workers; ++i) places[i].y -= deeper;
  if (bus) drawn.bars = {apart / 2};
  if (bus && below > 0) drawn.bars.push_back(-apart / 2 - deeper);
  return places;
}

/// Returns places in a grid. Bows its wrap-around edges over their row or beside their column.
std::vector<point> places_in_grid(picture& drawn, std::uint32_t rows, std::uint32_t columns) {
  const auto width = widest_of(drawn);
  const auto height = drawn.units.front().height;
  const auto step = std::min(width + 66, (content_max - width - 60) / static_cast<double>(columns - 1));
  const double row_step = height + 62;
  std::vector<point> places;
  for (std::uint32_t row = 0; row < rows; ++row)
    for (std::uint32_t column = 0; column < columns; ++column)
      places.push_back({step * (column - (columns - 1) / 2.0), row_step * ((rows - 1) / 2.0 - row)});
  const double aside = std::min(32.0, (step - width) * 0.6);
  for (auto& tie : drawn.ties) {
    if (tie.b - tie.a == columns - 1 && tie.a % columns == 0 && columns > 2) tie.bow = {0, 30};
    if (tie.b - tie.a == (rows - 1) * columns && rows > 2) tie.bow = {aside, 0};
  }
  return places;
}

/// Returns whether the units form a line, each tied to the next.
bool is_line(const picture& drawn) {
  const auto n = drawn.units.size();
  if (n < 3 || n > 8 || drawn.ties.size() != n - 1) return false;
  return std::all_of(drawn.ties.begin(), drawn.ties.end(), [](const auto& tie) { return tie.b == tie.a + 1; });
}

std::vector<point> places_in_line(const picture& drawn) {
  const auto n = drawn.units.size();
  return row_of(n, {0, 0},
                std::min(widest_of(drawn) + 104, (content_max - widest_of(drawn)) / static_cast<double>(n - 1)));
}

// Regions. ---------------------------------------------------------------------------------------------------------

/// Returns the frame around `units`, the rectangle of the units of a region. The title is on the side away from the
/// other regions. The quiet actors are side by side, or in a narrow frame one below the other.
frame framed(const region& region, rectangle units, bool beside_each_other) {
  const double margin = beside_each_other ? 18 : 10;
  constexpr double title_height = 26, address_height = 18;
  const auto centre = middle(units);
  frame result{.border = units, .title = {}, .address = {}, .quiet = {}};
  if (region.name.empty()) return result;
  const double outward = centre.y > -1 ? 1 : -1;
  const auto edge = [&](const rectangle& box) { return outward > 0 ? box.high.y : box.low.y; };
  const auto add_row = [&](double gap, double width, double height) {
    const point at{centre.x, edge(result.border) + outward * (gap + height / 2)};
    include(result.border, box_at(at, width, height));
    return at;
  };
  if (region.quiet && beside_each_other) {
    const auto at = add_row(16, 3 * quiet_width + 24, quiet_height);
    result.quiet = row_of(3, at, quiet_width + 12);
  } else if (region.quiet) {
    for (int i = 0; i < 3; ++i) result.quiet.push_back(add_row(i == 0 ? 12 : 6, quiet_width, quiet_height));
    if (outward > 0) std::reverse(result.quiet.begin(), result.quiet.end());
  }
  const auto add_title = [&] { result.title = add_row(6, width_of(region.name, 14), title_height - 6); };
  const auto add_address = [&] {
    if (!region.address.empty()) result.address = add_row(4, width_of(region.address, small_text), address_height - 4);
  };
  // The name is above the address.
  if (outward > 0)
    add_address(), add_title();
  else
    add_title(), add_address();
  const point below{margin, outward > 0 ? margin : 10}, above{margin, outward > 0 ? 10.0 : margin};
  result.border = {result.border.low - below, result.border.high + above};
  return result;
}

std::vector<frame> frames_of(const picture& drawn, const std::vector<point>& places) {
  std::vector<std::optional<rectangle>> around(drawn.regions.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto box = box_at(places[i], drawn.units[i]);
    auto& enclosing = around[drawn.units[i].region];
    if (!enclosing) enclosing = box;
    include(*enclosing, box);
  }
  std::vector<frame> frames;
  for (std::size_t i = 0; i < drawn.regions.size(); ++i)
    frames.push_back(framed(drawn.regions[i], around[i].value_or(rectangle{}), drawn.regions.size() <= 4));
  return frames;
}

/// Moves all places so that the frames extend equally far to the left and to the right.
void centre(picture& drawn) {
  rectangle whole;
  for (const auto& frame : frames_of(drawn, drawn.places)) include(whole, frame.border);
  const point aside{(whole.low.x + whole.high.x) / 2, 0};
  for (auto& place : drawn.places) place = place - aside;
  if (drawn.hub) *drawn.hub = {drawn.hub->low - aside, drawn.hub->high - aside};
}

/// Returns whether a unit is a server outside all frames, with at least two frames around it.
bool in_the_centre(const picture& drawn, const unit& unit) {
  return unit.server && drawn.regions[unit.region].name.empty() && drawn.regions.size() > 2;
}

/// Returns the width of the widest frame around a single unit, or of the widest unit without a frame.
double widest_frame(const picture& drawn, const std::vector<std::uint32_t>& units_of_region) {
  const auto unit = widest_of(drawn);
  double widest = unit;
  for (std::size_t i = 0; i < drawn.regions.size(); ++i) {
    if (units_of_region[i] != 1 || drawn.regions[i].name.empty()) continue;
    const auto border = framed(drawn.regions[i], box_at({}, unit, 0), drawn.regions.size() <= 4).border;
    widest = std::max(widest, border.high.x - border.low.x);
  }
  return std::max(widest, unit + 36);
}

/// The places of the units and of the hub of a bundle.
struct placing {
  std::vector<point> places;
  std::optional<rectangle> hub;
};

/// Returns the place for `hub` nearest to the middle of the ellipse, above or below it, that is clear of the frames.
std::optional<rectangle> place_for_hub(const rectangle& hub, const std::vector<rectangle>& borders, double height) {
  for (double away = 0; away < height; away += 6)
    for (const double side : {1.0, -1.0}) {
      const point up{0, side * away};
      const rectangle moved{hub.low + up, hub.high + up};
      const auto clear = [&](const rectangle& border) { return apart(border, moved, {26, 26}); };
      if (std::all_of(borders.begin(), borders.end(), clear)) return moved;
    }
  return {};
}

/// Places each region on an equal arc of an ellipse, with its units spread evenly on the arc, clockwise in rank order.
/// No line between two units then runs behind a third, and the smallest upright rectangles around such arcs do not
/// overlap: an arc that contains none of the ellipse's four tips is monotone, and one that contains a tip ends where
/// the next begins. Servers without a frame, whose region is the last one, are in a row in the centre. Returns nothing
/// if the hub of a bundle has no room.
std::optional<placing> places_by_region(const picture& drawn, bool second_backwards) {
  std::vector<std::uint32_t> in_all(drawn.regions.size());
  std::size_t inside = 0;
  for (const auto& unit : drawn.units) {
    ++in_all[unit.region];
    inside += in_the_centre(drawn, unit) ? 1 : 0;
  }
  const auto row = row_of(inside, {0, 0}, widest_of(drawn) + 24);
  const auto arcs = drawn.regions.size() - (inside > 0 ? 1 : 0);
  const auto regions = static_cast<double>(arcs);
  // The first region is left of the middle, so that they read like text on a page. It is at the top if the number of
  // regions is odd or two.
  const double start = arcs % 2 == 0 && arcs > 2 ? 1 / regions : 0.5 / regions;
  const auto places_at = [&](const ellipse& rim) {
    std::vector<std::uint32_t> seen(drawn.regions.size());
    auto next_inside = row.begin();
    std::vector<point> places;
    for (const auto& unit : drawn.units) {
      if (in_the_centre(drawn, unit)) {
        places.push_back(*next_inside++);
        continue;
      }
      const auto many = in_all[unit.region];
      const auto turn = seen[unit.region]++;
      const auto within = second_backwards && unit.region == 1 ? many - 1 - turn : turn;
      places.push_back(on_rim(rim, (unit.region + (within + 0.5) / many) / regions - start));
    }
    return places;
  };
  const auto borders_of = [&](const std::vector<point>& places) {
    std::vector<rectangle> borders;
    for (const auto& frame : frames_of(drawn, places)) borders.push_back(frame.border);
    return borders;
  };
  const bool labels = drawn.ties.size() <= 8 && arcs < 4;
  const point beside = arcs > 4 ? point{28, 24} : point{labels ? 90.0 : 44.0, 56};
  const auto has_room = [&](const ellipse& rim) {
    const auto places = places_at(rim);
    std::vector<rectangle> outside;
    for (std::size_t i = 0; i < places.size(); ++i)
      if (!in_the_centre(drawn, drawn.units[i])) outside.push_back(box_at(places[i], drawn.units[i]));
    const auto borders = borders_of(places);
    return room_between(outside, gap_of(drawn)) && room_between(borders, beside) &&
           (!drawn.hub || place_for_hub(*drawn.hub, borders, rim.height));
  };
  const auto widest = widest_frame(drawn, in_all);
  if (!drawn.hub) return placing{places_at(some_ellipse(drawn, widest, has_room)), {}};
  const auto rim = smallest_ellipse(drawn, widest, 1, has_room);
  if (!rim) return {};
  const auto places = places_at(*rim);
  return placing{places, place_for_hub(*drawn.hub, borders_of(places), rim->height)};
}

double length_of_ties(const picture& drawn, const std::vector<point>& places) {
  double sum = 0;
  for (const auto& tie : drawn.ties) {
    const auto way = places[tie.b] - places[tie.a];
    sum += std::hypot(way.x, way.y);
  }
  return sum;
}

/// Replaces bundles by faint lines.
void give_up_bundles(picture& drawn) {
  drawn.hub.reset();
  drawn.hub_text.clear();
  for (auto& style : drawn.styles)
    if (style == tie_style::bundle) style = tie_style::faint;
}

/// Places the units by region. The lower of two regions reads like text on a page, unless the ties are shorter the
/// other way, as around a ring.
void place_by_region(picture& drawn) {
  auto best = places_by_region(drawn, false);
  if (!best) {
    give_up_bundles(drawn);
    best = places_by_region(drawn, false);
  }
  if (drawn.regions.size() == 2) {
    auto like_a_page = places_by_region(drawn, true);
    if (like_a_page && length_of_ties(drawn, like_a_page->places) < length_of_ties(drawn, best->places) + 1)
      best = std::move(like_a_page);
  }
  drawn.places = best->places;
  drawn.hub = best->hub;
  centre(drawn);
  drawn.frames = frames_of(drawn, drawn.places);
}

/// Returns whether every tie has a server at one of its ends, and there are at least two servers or only two units.
bool is_between_both(const picture& drawn, std::size_t servers) {
  return servers > 0 && (servers > 1 || drawn.units.size() == 2) &&
         std::all_of(drawn.ties.begin(), drawn.ties.end(),
                     [&](const auto& tie) { return drawn.units[tie.a].server != drawn.units[tie.b].server; });
}

/// Returns the places of units that have neither nodes nor groups.
std::vector<point> places_without_regions(picture& drawn) {
  const auto servers = servers_of(drawn);
  if (const auto torus = torus_of(drawn)) return places_in_grid(drawn, torus->first, torus->second);
  if (is_line(drawn)) return places_in_line(drawn);
  const bool one_worker = drawn.centre && !drawn.units[*drawn.centre].server;
  if (is_between_both(drawn, servers.size()) && !one_worker) return places_in_rows(drawn);
  return places_on_ellipse(drawn, drawn.centre ? std::vector{*drawn.centre} : servers);
}

}  // namespace

std::optional<std::pair<std::uint32_t, std::uint32_t>> torus_of(const picture& drawn) {
  const auto n = static_cast<std::uint32_t>(drawn.units.size());
  std::set<std::pair<std::uint32_t, std::uint32_t>> tied;
  for (const auto& tie : drawn.ties) tied.emplace(tie.a, tie.b);
  for (std::uint32_t rows = 2; rows <= n / 2; ++rows) {
    if (n % rows != 0 || n / rows > 10 || n < 6) continue;
    const auto columns = n / rows;
    std::set<std::pair<std::uint32_t, std::uint32_t>> torus;
    for (std::uint32_t i = 0; i < n; ++i) {
      const auto right = i / columns * columns + (i + 1) % columns;
      torus.insert(std::minmax(i, right));
      torus.insert(std::minmax(i, (i + columns) % n));
    }
    if (torus == tied) return std::pair{rows, columns};
  }
  return {};
}

void lay_out(picture& drawn) {
  if (drawn.regions.size() > 1)
    place_by_region(drawn);
  else
    drawn.places = places_without_regions(drawn);
  for (std::size_t i = 0; i < drawn.units.size(); ++i) include(drawn.bounds, box_at(drawn.places[i], drawn.units[i]));
  for (const auto& frame : drawn.frames) include(drawn.bounds, frame.border);
  if (drawn.hub) include(drawn.bounds, *drawn.hub);
  for (const auto& tie : drawn.ties)
    for (const auto end : {tie.a, tie.b}) {
      const auto around = box_at(drawn.places[end], drawn.units[end]);
      include(drawn.bounds, {around.low, around.high + tie.bow});
    }
}

}  // namespace troupe
