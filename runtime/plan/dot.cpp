// Draws a plan: workers, servers and what they exchange in a panel, everybody else quietly below it; with several
// nodes, a frame around the actors of each, else one around each group that is a member of an exchange. The positions
// are worked out here, since a wiring has a shape that people know (a star, a ring, a mesh) and no general layout finds
// it. Units: points; y grows upwards; the centre of the workers is the origin.
#include "troupe/runtime/plan/canvas.hpp"
#include "troupe/runtime/plan/devices.hpp"
#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/support/units.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numbers>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace troupe {

namespace {

constexpr std::size_t actors_drawn_max = 64, nodes_drawn_max = 20;
constexpr double worker_width = 138, worker_height = 50;
constexpr double quiet_width = 104, quiet_height = 30;

constexpr palette worker_colours{"#e7f0fa", "#2b6cb0", "#1a365d"};
constexpr palette hub_colours{"#2b6cb0", "#2b6cb0", "#ffffff"};
constexpr palette server_colours{"#1f6f64", "#1f6f64", "#ffffff"};
constexpr palette quiet_colours{"#ffffff", "#b4bcc6", "#5b6673"};
constexpr palette node_colours{"#ffffff", "#93a1b1", "#1f2933"};
constexpr palette group_colours{"#fbf5e9", "#d8bd8c", "#7a5a1e"};
constexpr auto* panel_colour = "#f6f8fb";
constexpr auto* title_colour = "#1f2933";
/// One for each exchange of a loop.
constexpr std::array exchange_colours{"#2b6cb0", "#c05621", "#2f855a", "#6b46c1", "#b83280", "#8a6d0b"};

/// What is drawn as one box: a worker or a server, or in a summary all of a node.
struct unit {
  std::string name;
  std::string title, subtitle;  ///< What stands in the box.
  std::uint32_t region{0};
  bool several{false};
  bool server{false};
};

/// What has a frame around its units, or would have, had it a name: a node, a group, or a unit in neither.
struct region {
  std::string name{}, address{};
  bool quiet{false};  ///< Evaluator, coordinator and recorder stand in it.
  const palette* colours{&node_colours};
};

/// Traffic between two units, both ways, over one exchange.
struct tie {
  std::uint32_t a{0}, b{0};
  std::uint64_t bytes_there{0}, bytes_back{0};
  std::size_t exchange{0};
  std::size_t lane{0}, lanes{1};  ///< Of the ties between these two, which run side by side.
};

/// `unit_of`: the index of the unit that has this id.
template <class UnitOf>
std::vector<tie> ties_of(const plan& plan, UnitOf unit_of) {
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::size_t>, tie> ties;
  for (std::size_t place = 0; place < plan.exchanges.size(); ++place)
    for (const auto& edge : plan.exchanges[place].edges) {
      const auto [a, b] = std::minmax({unit_of(edge.from), unit_of(edge.to)});
      if (a == b) continue;
      auto& tie = ties[{a, b, place}];
      tie.a = a;
      tie.b = b;
      tie.exchange = place;
      (unit_of(edge.from) == a ? tie.bytes_there : tie.bytes_back) += edge.bytes;
    }
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> between;
  for (auto& [where, tie] : ties) tie.lane = between[{tie.a, tie.b}]++;
  std::vector<tie> list;
  for (auto& [where, tie] : ties) {
    tie.lanes = between[{tie.a, tie.b}];
    list.push_back(tie);
  }
  return list;
}

/// The unit that all traffic goes through, if there is one among three or more.
std::optional<std::uint32_t> hub_of(const std::vector<tie>& ties, std::size_t units) {
  if (units < 3 || ties.empty()) return {};
  for (const auto candidate : {ties.front().a, ties.front().b})
    if (std::all_of(ties.begin(), ties.end(), [&](const auto& t) { return t.a == candidate || t.b == candidate; }))
      return candidate;
  return {};
}

bool apart(point a, point b) {
  return std::abs(a.x - b.x) >= worker_width + 100 || std::abs(a.y - b.y) >= worker_height + 58;
}

bool room_between(const std::vector<point>& places) {
  for (std::size_t i = 0; i < places.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (!apart(places[i], places[j])) return false;
  return true;
}

/// Half the height of the smallest ellipse that has room, or of one that is large in any case.
template <class HasRoom>
double smallest_height(HasRoom has_room) {
  double height = 40;
  while (height < 20'000 && !has_room(height)) height += 4;
  return height;
}

point on_ellipse(double height, double turn) {
  const auto angle = std::numbers::pi * (0.5 - 2 * turn);
  return {2 * height * std::cos(angle), height * std::sin(angle)};
}

/// `count` places beside each other, their middle at `at`.
std::vector<point> row_of(std::size_t count, point at, double step) {
  std::vector<point> places;
  for (std::size_t i = 0; i < count; ++i)
    places.push_back({at.x + step * (static_cast<double>(i) - (static_cast<double>(count) - 1) / 2), at.y});
  return places;
}

constexpr double row_step = worker_width + 44;

/// `count` units in rank order, clockwise on an ellipse as small as their boxes and those of `inside` allow.
std::vector<point> ellipse_of(std::size_t count, const std::vector<point>& inside) {
  if (count == 1 && inside.empty()) return {{0, 0}};
  const auto n = static_cast<double>(count);
  const auto places_at = [&](double height) {
    std::vector<point> places;
    for (std::size_t i = 0; i < count; ++i) {
      // An even number has a flat top, an odd one a tip; the first of an even number lies left of the middle, so that
      // ranks read like a page.
      const auto turn = (static_cast<double>(i) - (count % 2 == 0 ? 0.5 : 0.0)) / n;
      places.push_back(on_ellipse(height, turn));
    }
    return places;
  };
  const auto has_room = [&](double height) {
    const auto places = places_at(height);
    return room_between(places) && std::all_of(inside.begin(), inside.end(), [&](const auto& within) {
             return std::all_of(places.begin(), places.end(), [&](const auto& place) { return apart(place, within); });
           });
  };
  return places_at(smallest_height(has_room));
}

/// Workers in a row above the servers; from five on, half of them below. Then no line runs behind a box.
std::vector<point> rows_of(const std::vector<unit>& units) {
  const auto servers =
      static_cast<std::size_t>(std::count_if(units.begin(), units.end(), [](const auto& unit) { return unit.server; }));
  const auto workers = units.size() - servers;
  const auto below = workers > 5 ? workers / 2 : 0;
  const auto above = workers - below;
  const auto widest = static_cast<double>(std::max({above, below, servers}));
  const double apart = std::clamp(28 * widest, 130.0, 320.0);
  auto places = row_of(above, {0, apart}, row_step);
  const auto low = row_of(below, {0, -apart}, row_step);
  places.insert(places.end(), low.begin(), low.end());
  // The servers spread over the width of the workers, so that lines meet them from all sides.
  const auto width = row_step * static_cast<double>(std::max(above, below) - 1);
  const auto step = servers > 1 ? std::clamp(width / static_cast<double>(servers), row_step, 2 * row_step) : 0;
  const auto middle = row_of(servers, {0, 0}, step);
  places.insert(places.end(), middle.begin(), middle.end());
  return places;
}

rectangle box_at(point centre, double width, double height) {
  const point half{width / 2, height / 2};
  return {centre - half, centre + half};
}

void include(rectangle& frame, const rectangle& more) {
  frame.low = {std::min(frame.low.x, more.low.x), std::min(frame.low.y, more.low.y)};
  frame.high = {std::max(frame.high.x, more.high.x), std::max(frame.high.y, more.high.y)};
}

std::string clipped(const std::string& text, std::size_t most) {
  return text.size() <= most ? text : text.substr(0, most) + "…";
}

/// The frame of a region, and what stands in it besides its units.
struct frame {
  rectangle border;
  point title;
  std::optional<point> quiet;  ///< Middle of the row of quiet actors.
};

constexpr std::size_t title_letters_max = 44;
constexpr double quiet_step = quiet_width + 12;

/// A drawing of units, before anything is drawn.
struct layout {
  std::vector<unit> units;
  std::vector<region> regions{};
  std::vector<point> places{};
  std::vector<frame> frames{};  ///< By region; none where there is but one.
  std::vector<tie> ties{};
  rectangle bounds{};
};

/// Frames the units between the corners of `units`; the title stands on the side away from the other regions.
frame framed(const region& region, rectangle units) {
  constexpr double margin = 18, title_height = 26;
  const auto middle = 0.5 * (units.low + units.high);
  frame result{.border = units, .title = {}, .quiet = {}};
  if (region.name.empty()) return result;
  const double outward = middle.y > -1 ? 1 : -1;
  const auto edge = [&](const rectangle& of) { return outward > 0 ? of.high.y : of.low.y; };
  if (region.quiet) {
    result.quiet = {middle.x, edge(units) + outward * (16 + quiet_height / 2)};
    include(result.border, box_at(*result.quiet, 2 * quiet_step + quiet_width, quiet_height));
  }
  const auto title_width = 8.5 * static_cast<double>(region.name.size()) +
                           6.5 * static_cast<double>(region.address.size());  // about; the fonts are Graphviz's
  result.title = {middle.x, edge(result.border) + outward * (margin - 6 + title_height / 2)};
  include(result.border, box_at(result.title, title_width, title_height));
  const point margins{margin, 0};
  const point below{0, outward > 0 ? margin : 6}, above{0, outward > 0 ? 6.0 : margin};
  result.border = {result.border.low - margins - below, result.border.high + margins + above};
  return result;
}

std::vector<frame> frames_of(const layout& drawn, const std::vector<point>& places) {
  std::vector<std::optional<rectangle>> around(drawn.regions.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto box = box_at(places[i], worker_width, worker_height);
    auto& all = around[drawn.units[i].region];
    if (!all) all = box;
    include(*all, box);
  }
  std::vector<frame> frames;
  for (std::size_t i = 0; i < drawn.regions.size(); ++i)
    frames.push_back(framed(drawn.regions[i], around[i].value_or(rectangle{})));
  return frames;
}

bool room_between(const std::vector<frame>& frames) {
  constexpr double beside = 90, above = 56;
  for (std::size_t i = 0; i < frames.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const auto &a = frames[i].border, &b = frames[j].border;
      if (a.low.x < b.high.x + beside && b.low.x < a.high.x + beside && a.low.y < b.high.y + above &&
          b.low.y < a.high.y + above)
        return false;
    }
  return true;
}

/// Moves all places so that the frames lie as far to the left as to the right.
std::vector<point> centred(const layout& drawn, std::vector<point> places) {
  rectangle all;
  for (const auto& frame : frames_of(drawn, places)) include(all, frame.border);
  for (auto& place : places) place.x -= (all.low.x + all.high.x) / 2;
  return places;
}

/// Servers in nobody's frame, where there are two frames at least that they can stand between.
bool in_the_centre(const layout& drawn, const unit& unit) {
  return unit.server && drawn.regions[unit.region].name.empty() && drawn.regions.size() > 2;
}

/// Each region has an equal arc of an ellipse, and its units are spread evenly on it, clockwise in rank order. No line
/// between two units then runs behind a third; and the least upright rectangles around such arcs do not overlap, since
/// an arc that holds none of the ellipse's four tips is monotone, and one that holds a tip ends where the next begins.
/// Servers without a frame, whose region is the last one, stand in a row in the centre.
std::vector<point> places_by_region(const layout& drawn) {
  std::vector<std::uint32_t> in_all(drawn.regions.size());
  std::size_t inside = 0;
  for (const auto& unit : drawn.units) {
    ++in_all[unit.region];
    inside += in_the_centre(drawn, unit) ? 1 : 0;
  }
  const auto centre = row_of(inside, {0, 0}, row_step);
  const auto arcs = drawn.regions.size() - (inside > 0 ? 1 : 0);
  const auto regions = static_cast<double>(arcs);
  // The first lies left of the middle, so that they read like a page; an odd number, and two, have it on top.
  const double start = arcs % 2 == 0 && arcs > 2 ? 1 / regions : 0.5 / regions;
  const auto places_at = [&](double height) {
    std::vector<std::uint32_t> seen(drawn.regions.size());
    auto next_inside = centre.begin();
    std::vector<point> places;
    for (const auto& unit : drawn.units)
      places.push_back(
          in_the_centre(drawn, unit)
              ? *next_inside++
              : on_ellipse(height,
                           (unit.region + (seen[unit.region]++ + 0.5) / in_all[unit.region]) / regions - start));
    return places;
  };
  const auto has_room = [&](double height) {
    const auto places = places_at(height);
    std::vector<point> outside;
    for (std::size_t i = 0; i < places.size(); ++i)
      if (!in_the_centre(drawn, drawn.units[i])) outside.push_back(places[i]);
    return room_between(outside) && room_between(frames_of(drawn, places));
  };
  return centred(drawn, places_at(smallest_height(has_room)));
}

/// Workers that have neither nodes nor groups: around the hub or the servers, or in rows.
std::vector<point> places_of(const layout& drawn, const std::optional<std::uint32_t>& hub) {
  const auto& units = drawn.units;
  const auto is_server = [&](std::uint32_t index) { return units[index].server; };
  const auto servers =
      static_cast<std::size_t>(std::count_if(units.begin(), units.end(), [](const auto& unit) { return unit.server; }));
  const bool between_both = std::all_of(drawn.ties.begin(), drawn.ties.end(),
                                        [&](const auto& tie) { return is_server(tie.a) != is_server(tie.b); });
  if (servers > 0 && between_both && (servers > 1 || units.size() == 2)) return rows_of(units);
  const auto inside = hub ? row_of(1, {0, 0}, 0) : row_of(servers, {0, 0}, row_step);
  const auto around = ellipse_of(units.size() - inside.size(), inside);
  std::vector<point> places;
  auto next_inside = inside.begin();
  auto next_around = around.begin();
  for (std::uint32_t i = 0; i < units.size(); ++i)
    places.push_back((hub ? i == *hub : is_server(i)) ? *next_inside++ : *next_around++);
  return places;
}

/// Where the ray from `inside` along `way` leaves a box, a little beyond its border.
point leaving(const rectangle& box, point inside, point way, double gap) {
  const auto reach = [](double from, double step, double low, double high) {
    if (step == 0) return 1e9;
    return ((step > 0 ? high : low) - from) / step;
  };
  const auto t = std::min(reach(inside.x, way.x, box.low.x - gap, box.high.x + gap),
                          reach(inside.y, way.y, box.low.y - gap, box.high.y + gap));
  return inside + t * way;
}

std::string batch_text(const plan& plan) {
  return "batch " + std::to_string(plan.sampling.batch_size);
}

std::string compute_text(const plan& plan) {
  return "compute: " + devices_text(plan.devices) + ", " + batch_text(plan);
}

std::string amount(const tie& tie) {
  if (tie.bytes_there == 0 || tie.bytes_back == 0) return human_bytes(tie.bytes_there + tie.bytes_back);
  if (tie.bytes_there == tie.bytes_back) return human_bytes(tie.bytes_there);  // and as much the other way
  return human_bytes(tie.bytes_there) + " / " + human_bytes(tie.bytes_back);
}

/// The middle of what is seen of a tie: between two nodes, of what lies outside of both.
point middle_of(const layout& drawn, const tie& tie, point first, point last) {
  const auto a = drawn.units[tie.a].region;
  const auto b = drawn.units[tie.b].region;
  if (a == b || drawn.frames.empty()) return 0.5 * (first + last);
  return 0.5 * (leaving(drawn.frames[a].border, first, last - first, 0) +
                leaving(drawn.frames[b].border, last, first - last, 0));
}

void draw_ties(canvas& drawing, const layout& drawn, bool labelled) {
  const bool dense = drawn.ties.size() > 12;
  const double head = dense ? 6 : 9;
  for (const auto& tie : drawn.ties) {
    const auto from = drawn.places[tie.a];
    const auto to = drawn.places[tie.b];
    const auto way = to - from;
    const auto length = std::hypot(way.x, way.y);
    const auto aside = 14 * (static_cast<double>(tie.lane) - (static_cast<double>(tie.lanes) - 1) / 2);
    const point shift{-way.y / length * aside, way.x / length * aside};
    const auto first = leaving(box_at(from, worker_width, worker_height), from + shift, way, 4);
    const auto last = leaving(box_at(to, worker_width, worker_height), to + shift, -1 * way, 4);
    const std::string colour = exchange_colours[tie.exchange % exchange_colours.size()];
    const auto& [a, b] = std::tie(drawn.units[tie.a], drawn.units[tie.b]);
    const auto nothing_sent = tie.bytes_there == 0 && tie.bytes_back == 0;  // a memory, read and written
    drawing.line(
        a.name, b.name, first, last, nothing_sent || tie.bytes_back > 0 ? head : 0,
        nothing_sent || tie.bytes_there > 0 ? head : 0,
        "color=\"" + colour + "\", penwidth=" + (dense ? "1.0" : "1.8") + ", arrowsize=" + (dense ? "0.6" : "0.9"));
    if (!labelled || nothing_sent) continue;
    const bool in_frame = !drawn.frames.empty() && a.region == b.region;
    drawing.label("traffic " + std::to_string(tie.a) + " " + std::to_string(tie.b) + " " + std::to_string(tie.exchange),
                  middle_of(drawn, tie, first, last), in_frame ? drawn.regions[a.region].colours->fill : panel_colour,
                  font(10, colour, amount(tie)));
  }
}

/// A setting of one word or number; nothing of a longer one.
std::string short_text(const setting_value& value) {
  if (const auto* word = std::get_if<std::string>(&value)) return *word;
  if (const auto* number = std::get_if<std::int64_t>(&value)) return std::to_string(*number);
  if (const auto* number = std::get_if<double>(&value)) return human_number(*number);
  return {};
}

/// The settings that are not as usual: " (route = ring)".
std::string choices_of(const planned_exchange& exchange) {
  std::string choices;
  for (const auto& setting : exchange.kind->settings) {
    const auto given = exchange.settings.find(setting.name);
    if (given == exchange.settings.end()) continue;
    const auto value = short_text(given->second);
    if (value.empty() || value == setting.default_text || '"' + value + '"' == setting.default_text) continue;
    choices += (choices.empty() ? "" : ", ") + setting.name + " = " + value;
  }
  return choices.empty() ? "" : " (" + choices + ")";
}

/// What the ties of one exchange carry in one direction: from the least to the most.
std::string range_of(const std::vector<tie>& ties, std::size_t exchange) {
  std::vector<std::uint64_t> amounts;
  for (const auto& tie : ties)
    for (const auto bytes : {tie.bytes_there, tie.bytes_back})
      if (tie.exchange == exchange && bytes > 0) amounts.push_back(bytes);
  if (amounts.empty()) return {};
  const auto [least, most] = std::minmax_element(amounts.begin(), amounts.end());
  const auto from = human_bytes(*least);
  const auto to = human_bytes(*most);
  return from == to ? from : from + " to " + to;
}

/// Two lines of HTML.
struct caption {
  std::string what, cost;
};

/// What each exchange is and costs; and what an arrow without a label carries.
std::vector<caption> captions_of(const plan& plan, const std::vector<tie>& ties, bool labelled) {
  std::vector<caption> captions;
  for (std::size_t place = 0; place < plan.exchanges.size(); ++place) {
    const auto& exchange = plan.exchanges[place];
    std::uint64_t messages = 0;
    std::uint64_t bytes = 0;
    std::uint64_t crossing = 0;
    for (const auto& edge : exchange.edges) {
      messages += edge.messages;
      bytes += edge.bytes;
      if (plan.crosses(edge)) crossing += edge.bytes;
    }
    const std::string colour = exchange_colours[place % exchange_colours.size()];
    caption caption;
    const auto& [sends, answers, behind_apply] = exchange.carries;
    const bool seldom = exchange.due.every > 1;
    caption.what = font(12, colour,
                        exchange.name + ": " + exchange.kind->name + choices_of(exchange) + " of the " +
                            (exchange.of_norms ? "statistics" : name_of(sends)) +
                            (answers == sends ? "" : ", answered with the " + name_of(answers)) +
                            (seldom ? ", every " + grouped(exchange.due.every) + " steps" : ""));
    auto cost = grouped(messages) + " messages and " + human_bytes(bytes) + (seldom ? " per exchange" : " per step");
    if (plan.nodes.size() > 1)
      cost += ", " +
              (crossing == bytes ? "all"
               : crossing == 0   ? "none"
                                 : human_bytes(crossing)) +
              " of it between nodes";
    if (!labelled) cost += ", " + range_of(ties, place) + " per arrow";
    if (messages > 0) caption.cost = font(10.5, colour, cost);
    captions.push_back(caption);
  }
  return captions;
}

std::string title_of(const plan& plan) {
  return plan.file.file.empty() ? plan.model->name + " on " + plan.data->name : plan.file.file.filename().string();
}

std::string subtitle_of(const plan& plan) {
  std::string loop;
  for (const auto& word : plan.file.workers.loop) loop += (loop.empty() ? "" : " → ") + word;
  return plan.model->name + " with " + grouped(static_cast<std::uint64_t>(plan.layout.parameter_count)) +
         " parameters on " + plan.data->name + (loop.empty() ? "" : "  ·  " + loop);
}

/// The row of actors that do not compute, `step` apart, their middle at `at`.
void draw_quiet(canvas& drawing, point at, double step) {
  const auto quiet = [&](const std::string& name, double x) {
    drawing.box(name, {x, at.y}, quiet_width, quiet_height, quiet_colours, font(11, quiet_colours.text, name),
                ", penwidth=1");
  };
  quiet("evaluator", at.x - step);
  quiet("coordinator", at.x);
  quiet("recorder", at.x + step);
}

void draw_frames(canvas& drawing, const layout& drawn) {
  for (std::size_t i = 0; i < drawn.frames.size(); ++i) {
    const auto& [border, title, quiet] = drawn.frames[i];
    const auto& region = drawn.regions[i];
    if (region.name.empty()) continue;
    std::vector<std::string> members{"frame " + std::to_string(i)};
    for (const auto& unit : drawn.units)
      if (unit.region == i) members.push_back(unit.name);
    if (quiet) {
      draw_quiet(drawing, *quiet, quiet_step);
      members.insert(members.end(), {"evaluator", "coordinator", "recorder"});
    }
    const auto& colours = *region.colours;
    drawing.label(members.front(), title, colours.fill,
                  bold(font(13, colours.text, region.name)) +
                      (region.address.empty() ? "" : font(11, quiet_colours.text, "   " + region.address)));
    drawing.cluster(members.front(), border, colours, members);
  }
}

/// What surrounds the workers, which lie within drawn.bounds: panel, captions, title, and the quiet actors where they
/// are in no frame.
std::string surrounded(canvas& drawing, const plan& plan, const layout& drawn, const std::vector<caption>& captions) {
  const auto& [low, high] = drawn.bounds;
  const double right = std::max({high.x + 40, 40 - low.x, 300.0});
  const double top = high.y + 36;
  const double bottom = low.y - 20 - 40 * static_cast<double>(captions.size());
  drawing.panel({{-right, bottom}, {right, top}}, panel_colour);
  drawing.text("title", {0, top + 56}, bold(font(20, title_colour, title_of(plan))));
  drawing.text("subtitle", {0, top + 26}, font(13, quiet_colours.text, subtitle_of(plan)));
  for (std::size_t i = 0; i < captions.size(); ++i) {
    const double line = low.y - 26 - 40 * static_cast<double>(i);
    drawing.text("exchange " + std::to_string(i), {0, line}, captions[i].what);
    if (!captions[i].cost.empty()) drawing.text("cost " + std::to_string(i), {0, line - 17}, captions[i].cost);
  }
  const std::string heading = "// Drawn by troupe graph; render it with: dot -Tsvg\n";
  if (plan.nodes.size() > 1 && !drawn.frames.empty())
    return drawing.dot(heading, {{-right, bottom}, {right, top + 70}});

  const double row = bottom - 46;
  draw_quiet(drawing, {0, row}, 170);
  const std::string dashed = "color=\"" + std::string(quiet_colours.line) + "\", style=dashed, penwidth=1";
  const double edge = quiet_width / 2 + 2;
  drawing.line("coordinator", drawn.units.front().name, {0, row + quiet_height / 2 + 2}, {0, bottom}, 0, 0, dashed);
  drawing.line("coordinator", "evaluator", {-edge, row}, {-170 + edge, row}, 0, 0, dashed);
  drawing.line("coordinator", "recorder", {edge, row}, {170 - edge, row}, 0, 0, dashed);
  return drawing.dot(heading, {{-right, row - quiet_height / 2}, {right, top + 70}});
}

/// A box, or a stack of three in the room of one.
void draw_unit(canvas& drawing, const unit& unit, point at, const palette& colours) {
  const double step = unit.several ? 5 : 0;
  auto around = colours;
  if (unit.several && unit.server) around.line = panel_colour;  // or a dark stack would be one dark shape
  const auto box = [&](const std::string& name, int place, const std::string& html) {
    const point aside{place * step, place * step};
    drawing.box(name, at + aside, worker_width - 2 * step, worker_height - 2 * step, around, html);
  };
  if (unit.several) {
    box(unit.name + " behind", 1, " ");
    box(unit.name + " between", 0, " ");
  }
  box(unit.name, unit.several ? -1 : 0,
      bold(font(14, colours.text, unit.title)) + "<br/>" + font(10, colours.text, unit.subtitle));
}

const palette& colours_of(const unit& unit, bool is_hub) {
  if (unit.server) return server_colours;
  return is_hub ? hub_colours : worker_colours;
}

std::string drawn_by(const plan& plan, layout drawn) {
  const auto hub = hub_of(drawn.ties, drawn.units.size());
  if (drawn.regions.size() > 1) {
    drawn.places = places_by_region(drawn);
    drawn.frames = frames_of(drawn, drawn.places);
  } else {
    drawn.places = places_of(drawn, hub);
  }
  for (const auto& place : drawn.places) include(drawn.bounds, box_at(place, worker_width, worker_height));
  for (const auto& frame : drawn.frames) include(drawn.bounds, frame.border);
  // Lines that cross would have labels upon each other; then the caption says what each line carries.
  const bool labelled = drawn.ties.size() <= 8 && drawn.ties.size() <= drawn.units.size();
  canvas drawing;
  draw_frames(drawing, drawn);
  for (std::size_t i = 0; i < drawn.units.size(); ++i)
    draw_unit(drawing, drawn.units[i], drawn.places[i], colours_of(drawn.units[i], hub == i));
  draw_ties(drawing, drawn, labelled);
  return surrounded(drawing, plan, drawn, captions_of(plan, drawn.ties, labelled));
}

std::vector<region> regions_by_node(const plan& plan) {
  if (plan.nodes.size() == 1) return {region{}};
  std::vector<region> regions;
  for (const auto& node : plan.nodes)
    regions.push_back({.name = clipped(node.name, title_letters_max),
                       .address = clipped(print_endpoint(node.address), title_letters_max),
                       .quiet = regions.empty(),
                       .colours = &node_colours});
  return regions;
}

/// The exchange whose members are groups, if there is one; of several, the one whose groups are largest.
const planned_exchange* grouped_exchange(const plan& plan) {
  const planned_exchange* found = nullptr;
  std::size_t largest = 1;
  for (const auto& exchange : plan.exchanges)
    for (const auto& member : exchange.members)
      if (member.ranks.size() > largest) {
        largest = member.ranks.size();
        found = &exchange;
      }
  return found;
}

/// Makes a region of each member of an exchange of groups, of each worker in none, and of all servers.
void divide_by_group(layout& drawn, const planned_exchange& exchange) {
  drawn.regions.clear();
  const auto add = [&](const std::string& name) {
    drawn.regions.push_back({.name = name, .address = {}, .quiet = false, .colours = &group_colours});
    return static_cast<std::uint32_t>(drawn.regions.size() - 1);
  };
  std::vector<const topology::exchange_member*> group_of(drawn.units.size(), nullptr);
  for (const auto& member : exchange.members)
    for (const auto rank : member.ranks)
      if (member.ranks.size() > 1) group_of.at(rank) = &member;
  std::map<const topology::exchange_member*, std::uint32_t> region_of;
  std::optional<std::uint32_t> of_servers;
  for (std::size_t i = 0; i < drawn.units.size(); ++i) {
    auto& unit = drawn.units[i];
    if (unit.server) {
      if (!of_servers) of_servers = add("");
      unit.region = *of_servers;
    } else if (const auto* group = group_of[i]) {
      const auto found = region_of.find(group);
      unit.region = found != region_of.end() ? found->second : add(clipped(group->name, title_letters_max));
      region_of.emplace(group, unit.region);
    } else {
      unit.region = add("");
    }
  }
}

/// Where frames are of nodes, the boxes say which group they are of.
void name_groups(const plan& plan, layout& drawn, const planned_exchange& exchange) {
  for (const auto& member : exchange.members)
    for (const auto rank : member.ranks)
      if (member.ranks.size() > 1)
        drawn.units[rank].subtitle = "in " + clipped(member.name, 8) + ", " + batch_text(plan);
}

std::string holding_text(std::uint64_t bytes) {
  return bytes == 0 ? "holds nothing" : "holds " + human_bytes(bytes);
}

/// "server 1", or with several exchanges that have servers "averages server 1".
void add_servers(const plan& plan, std::vector<unit>& units) {
  const auto exchanges_served = std::count_if(plan.exchanges.begin(), plan.exchanges.end(),
                                              [](const auto& exchange) { return exchange.nature.servers > 0; });
  for (const auto& exchange : plan.exchanges) {
    const auto all = exchange.nature.servers;
    for (std::uint32_t i = 0; i < all; ++i) {
      const auto server = "server " + std::to_string(i);
      const auto title = exchange.nature.memory ? std::string("memory") : server;
      units.push_back({.name = exchange.name + " " + server,
                       .title = exchanges_served > 1 ? exchange.name + " " + title : title,
                       .subtitle = holding_text(exchange.bytes_held(i)),
                       .region = 0,
                       .several = false,
                       .server = true});
    }
  }
}

/// All servers as one box.
unit servers_as_one(const plan& plan) {
  const auto all = plan.servers();
  std::uint64_t held = 0;
  for (const auto& exchange : plan.exchanges)
    for (std::uint32_t i = 0; i < exchange.nature.servers; ++i) held += exchange.bytes_held(i);
  return {.name = "servers",
          .title = all > 1 ? grouped(all) + " servers" : "server 0",
          .subtitle = all > 1 ? "hold " + human_bytes(held) + " in total" : holding_text(held),
          .region = 0,
          .several = all > 1,
          .server = true};
}

std::string in_full(const plan& plan) {
  layout drawn{.units = {}, .regions = regions_by_node(plan)};
  for (std::uint32_t rank = 0; rank < plan.workers; ++rank) {
    const auto name = "worker " + std::to_string(rank);
    drawn.units.push_back(
        {.name = name, .title = name, .subtitle = compute_text(plan), .region = plan.node_of(rank), .several = false});
  }
  add_servers(plan, drawn.units);
  if (const auto* exchange = grouped_exchange(plan)) {
    if (plan.nodes.size() == 1)
      divide_by_group(drawn, *exchange);
    else
      name_groups(plan, drawn, *exchange);
  }
  drawn.ties = ties_of(plan, [](std::uint32_t id) { return id; });
  return drawn_by(plan, std::move(drawn));
}

std::string node_by_node(const plan& plan) {
  layout drawn{.units = {}, .regions = regions_by_node(plan)};
  const auto nodes = static_cast<std::uint32_t>(plan.nodes.size());
  for (std::uint32_t i = 0; i < nodes; ++i) {
    const auto workers = plan.nodes[i].workers;
    const bool several = workers > 1;
    drawn.units.push_back({.name = ranks_text(plan.nodes[i]),
                           .title = several ? grouped(workers) + " workers" : ranks_text(plan.nodes[i]),
                           .subtitle = several ? ranks_text(plan.nodes[i]) : compute_text(plan),
                           .region = i,
                           .several = several});
  }
  if (plan.servers() > 0) drawn.units.push_back(servers_as_one(plan));
  drawn.ties = ties_of(plan, [&](std::uint32_t id) { return id < plan.workers ? plan.node_of(id) : nodes; });
  return drawn_by(plan, std::move(drawn));
}

/// All workers as one stack, and all servers as another.
std::string in_one(const plan& plan) {
  const auto nodes = plan.nodes.size();
  layout drawn{.units = {{.name = ranks_text({.name = {}, .first_rank = 0, .workers = plan.workers}),
                          .title = grouped(plan.workers) + " workers",
                          .subtitle = nodes > 1 ? "on " + grouped(nodes) + " nodes" : compute_text(plan),
                          .region = 0,
                          .several = true}},
               .regions = {region{}}};
  if (plan.servers() > 0) drawn.units.push_back(servers_as_one(plan));
  drawn.ties = ties_of(plan, [&](std::uint32_t id) { return id < plan.workers ? 0U : 1U; });
  return drawn_by(plan, std::move(drawn));
}

}  // namespace

std::string to_dot(const plan& plan) {
  if (plan.actors.size() <= actors_drawn_max) return in_full(plan);
  return plan.nodes.size() > 1 && plan.nodes.size() <= nodes_drawn_max ? node_by_node(plan) : in_one(plan);
}

}  // namespace troupe
