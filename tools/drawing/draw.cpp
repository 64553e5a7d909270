// Draws a plan: a panel with the workers, the servers and their exchanges, and below it the other actors. With several
// nodes, each has a frame around its actors; otherwise each group that is a member of an exchange has one.
#include "troupe/data/formats/utf8.hpp"
#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/support/units.hpp"
#include "troupe/tools/drawing/canvas.hpp"
#include "troupe/tools/drawing/captions.hpp"
#include "troupe/tools/drawing/drawing.hpp"
#include "troupe/tools/drawing/drawing_mark.hpp"
#include "troupe/tools/drawing/layout.hpp"
#include "troupe/tools/drawing/picture.hpp"
#include "troupe/tools/drawing/ties.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace troupe {

namespace {

constexpr std::size_t actors_drawn_max = 64, nodes_drawn_max = 20;
constexpr std::size_t title_letters_max = 44;

// The units of a plan and their ties. ------------------------------------------------------------------------------

/// Returns the names of workers as in the file: "w3", "w0 to w2".
std::string names_of(std::uint32_t first, std::uint32_t count) {
  const auto name = "w" + std::to_string(first);
  return count == 1 ? name : name + " to w" + std::to_string(first + count - 1);
}

/// Returns the ties between the units of a plan. `unit_of` returns the index of the unit that has an id.
template <class UnitOf>
std::vector<tie> ties_of(const plan& plan, UnitOf unit_of) {
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::size_t>, tie> ties;
  for (std::size_t place = 0; place < plan.exchanges.size(); ++place)
    for (const auto& edge : plan.traffic[place].edges) {
      const auto [a, b] = std::minmax({unit_of(edge.from), unit_of(edge.to)});
      if (a == b) continue;
      auto& tie = ties[{a, b, place}];
      const bool forwards = unit_of(edge.from) == a;
      tie.a = a;
      tie.b = b;
      tie.exchange = place;
      (forwards ? tie.there : tie.back) = true;
      (forwards ? tie.bytes_there : tie.bytes_back) += edge.bytes;
    }
  std::vector<tie> list;
  for (const auto& [where, tie] : ties) list.push_back(tie);
  return list;
}

/// Returns the address of a node. Port 0 is not an address: the port is chosen when the node starts.
std::string address_of(const planned_node& node) {
  if (node.address.port == 0) return node.address.host + ", port chosen at start";
  return print_endpoint(node.address);
}

/// Returns a note with the address of all nodes if they have the same one, or nothing.
std::string common_address(const plan& plan) {
  if (plan.nodes.size() < 2) return {};
  const auto first = address_of(plan.nodes.front());
  const bool same =
      std::all_of(plan.nodes.begin(), plan.nodes.end(), [&](const auto& node) { return address_of(node) == first; });
  return same ? grouped(plan.nodes.size()) + " nodes on " + plan.nodes.front().address.host + ", ports chosen at start"
              : "";
}

std::vector<region> regions_by_node(const plan& plan) {
  if (plan.nodes.size() == 1) return {region{}};
  const bool in_common = !common_address(plan).empty();
  std::vector<region> regions;
  for (const auto& node : plan.nodes)
    regions.push_back({.name = data::clipped(node.name, title_letters_max),
                       .address = in_common ? "" : data::clipped(address_of(node), title_letters_max),
                       .quiet = regions.empty(),
                       .colours = &colours::node});
  return regions;
}

/// Returns the exchange whose members are groups, or nullptr. If there are several, returns the one with the largest
/// group.
const planned_exchange* grouped_exchange(const plan& plan) {
  const planned_exchange* result = nullptr;
  std::size_t largest = 1;
  for (const auto& exchange : plan.exchanges)
    for (const auto& member : exchange.members)
      if (member.ranks.size() > largest) {
        largest = member.ranks.size();
        result = &exchange;
      }
  return result;
}

/// Makes a region for each member of an exchange of groups, for each worker outside them, and one for all servers.
void divide_by_group(picture& drawn, const planned_exchange& exchange) {
  drawn.regions.clear();
  const auto add = [&](const std::string& name) {
    drawn.regions.push_back({.name = name, .address = {}, .quiet = false, .colours = &colours::group});
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
      const auto known = region_of.find(group);
      unit.region = known != region_of.end() ? known->second : add(data::clipped(group->name, title_letters_max));
      region_of.emplace(group, unit.region);
    } else {
      unit.region = add("");
    }
  }
}

/// Names the group of each worker in its box. Used if the frames are those of nodes.
void name_groups(picture& drawn, const planned_exchange& exchange) {
  for (const auto& member : exchange.members)
    for (const auto rank : member.ranks)
      if (member.ranks.size() > 1) drawn.units[rank].subtitle = "in " + data::clipped(member.name, 12);
}

/// Returns the device of a worker, or nothing if all workers have the same device, which the page then states once.
std::string worker_device(const plan& plan, std::uint32_t rank) {
  const auto& devices = plan.devices;
  const bool same =
      std::all_of(devices.begin(), devices.end(), [&](const auto& device) { return device == devices[0]; });
  return same ? "" : devices.at(rank).str();
}

std::string holding_text(std::uint64_t bytes) {
  return bytes == 0 ? "holds nothing" : "holds " + human_bytes(bytes);
}

/// Adds the servers, named "s1", or "averages s1" if several exchanges have servers.
void add_servers(const plan& plan, std::vector<unit>& units) {
  const auto exchanges_served = std::count_if(plan.exchanges.begin(), plan.exchanges.end(),
                                              [](const auto& exchange) { return exchange.nature.servers > 0; });
  for (const auto& exchange : plan.exchanges) {
    const auto servers = exchange.nature.servers;
    for (std::uint32_t i = 0; i < servers; ++i) {
      const auto server = "s" + std::to_string(i);
      const auto& actor = exchange.nature.actor;
      const auto title = !actor.empty()            ? data::clipped(actor, 12)
                         : exchange.nature.in_loop ? server
                                                   : std::string("memory");
      units.push_back({.name = exchange.name + " " + server,
                       .title = exchanges_served > 1 ? data::clipped(exchange.name, 12) + " " + title : title,
                       .subtitle = actor.empty() ? holding_text(plan.bytes_held(exchange, i)) : "another program",
                       .region = 0,
                       .several = false,
                       .server = true});
    }
  }
}

/// Returns one box for all servers.
unit servers_as_one(const plan& plan) {
  const auto servers = plan.servers();
  std::uint64_t held = 0;
  for (const auto& exchange : plan.exchanges)
    for (std::uint32_t i = 0; i < exchange.nature.servers; ++i) held += plan.bytes_held(exchange, i);
  return {.name = "servers",
          .title = servers > 1 ? grouped(servers) + " servers" : "s0",
          .subtitle = servers > 1 ? "hold " + human_bytes(held) + " in total" : holding_text(held),
          .region = 0,
          .several = servers > 1,
          .server = true};
}

// The drawing. -----------------------------------------------------------------------------------------------------

double title_size(const picture& drawn) {
  return drawn.units.size() <= 8 ? 14 : 12.5;
}

/// Sets the size of the boxes to fit their text: all workers alike, all servers alike, and smaller if there are many.
void set_sizes(picture& drawn) {
  const bool many = drawn.units.size() > 8;
  for (const bool servers : {false, true}) {
    double width = many ? 52 : 84;
    double height = many ? 30 : 40;
    for (const auto& unit : drawn.units) {
      if (unit.server != servers) continue;
      width = std::max({width, width_of(unit.title, title_size(drawn)) + 20, width_of(unit.subtitle, small_text) + 16});
      if (!unit.subtitle.empty()) height = many ? 40 : 46;
      if (unit.several) width = std::max(width, 124.0), height = 54;
    }
    for (auto& unit : drawn.units)
      if (unit.server == servers) unit.width = width, unit.height = height;
  }
}

/// Draws the actors that do not compute: evaluator, coordinator, recorder.
void draw_quiet(canvas& drawing, const std::vector<point>& places) {
  std::size_t i = 0;
  for (const auto* name : {"evaluator", "coordinator", "recorder"})
    drawing.box(name, places.at(i++), quiet_width, quiet_height, colours::quiet,
                {{small_text, colours::quiet.text, name}}, 1);
}

void draw_frames(canvas& drawing, const picture& drawn) {
  for (std::size_t i = 0; i < drawn.frames.size(); ++i) {
    const auto& [border, title, address, quiet] = drawn.frames[i];
    const auto& region = drawn.regions[i];
    if (region.name.empty()) continue;
    const auto number = std::to_string(i);
    std::vector<std::string> members{"frame " + number};
    for (const auto& unit : drawn.units)
      if (unit.region == i) members.push_back(unit.name);
    if (!quiet.empty()) {
      draw_quiet(drawing, quiet);
      members.insert(members.end(), {"evaluator", "coordinator", "recorder"});
    }
    const auto& colours = *region.colours;
    drawing.label("frame " + number, title, colours.fill, {13, colours.text, region.name, true});
    if (!region.address.empty()) {
      members.push_back("address " + number);
      drawing.label("address " + number, address, colours.fill, {small_text, colours::quiet.text, region.address});
    }
    drawing.cluster("frame " + number, border, colours, members);
  }
}

/// Draws a box, or a stack of three in the space of one.
void draw_unit(canvas& drawing, const picture& drawn, std::uint32_t index) {
  const auto& unit = drawn.units[index];
  const auto at = drawn.places[index];
  auto colours = unit.server ? colours::server : drawn.centre == index ? colours::hub : colours::worker;
  const std::string text = colours.text;
  const double step = unit.several ? 5 : 0;
  if (unit.several && unit.server) colours.line = colours::panel;  // otherwise, a dark stack would be one dark shape
  const auto box = [&](const std::string& name, int place, const std::vector<words>& lines) {
    const point aside{place * step, place * step};
    drawing.box(name, at + aside, unit.width - 2 * step, unit.height - 2 * step, colours, lines);
  };
  if (unit.several) {
    box(unit.name + " behind", 1, {});
    box(unit.name + " between", 0, {});
  }
  std::vector<words> lines{{title_size(drawn), text, unit.title, true}};
  if (!unit.subtitle.empty()) lines.push_back({small_text, text, unit.subtitle});
  box(unit.name, unit.several ? -1 : 0, lines);
}

std::string title_of(const plan& plan) {
  return plan.file.file.empty() ? plan.model->name + " on " + plan.data->name
                                : data::clipped(plan.file.file.filename().string(), 60);
}

/// Draws the panel with its captions, the title above it, and below it the actors that do not compute, unless they are
/// in a frame. If only the wiring is drawn, draws only the panel with its captions. Call it first, because the panel is
/// the lowest layer. Returns the visible part.
rectangle draw_page(canvas& drawing, const plan& plan, const picture& drawn) {
  constexpr double line = 17, between = 8;
  const auto captions = captions_of(plan, drawn);
  const auto subtitle = subtitle_of(plan, common_address(plan));
  const auto& [low, high] = drawn.bounds;
  const double right = std::max({high.x + 28, 28 - low.x, 300.0});
  const double top = high.y + 34;
  double bottom = low.y - 26;
  for (const auto& lines : captions) bottom -= line * static_cast<double>(lines.size()) + between;
  drawing.panel({{-right, bottom}, {right, top}}, colours::panel, colours::panel);

  double at = low.y - 30;
  for (std::size_t i = 0; i < captions.size(); ++i, at -= between)
    for (std::size_t j = 0; j < captions[i].size(); ++j, at -= line)
      drawing.text("exchange " + std::to_string(i) + " line " + std::to_string(j), {0, at}, captions[i][j]);
  if (drawn.wiring_only) return {{-right, bottom}, {right, top}};
  at = top + 20 + 20 * (static_cast<double>(subtitle.size()) - 1);
  const auto highest = at + 30;
  drawing.text("title", {0, highest}, {20, colours::title, title_of(plan), true});
  for (std::size_t i = 0; i < subtitle.size(); ++i, at -= 20)
    drawing.text("subtitle " + std::to_string(i), {0, at}, subtitle[i]);
  if (plan.nodes.size() > 1 && !drawn.frames.empty()) return {{-right, bottom}, {right, highest + 16}};

  const double row = bottom - 44;
  draw_quiet(drawing, {{-170, row}, {0, row}, {170, row}});
  const auto dashed = [&](point from, point to) { drawing.stroke(from, to, {}, {colours::quiet.line, 1, true}); };
  const double edge = quiet_width / 2 + 2;
  dashed({0, row + quiet_height / 2 + 2}, {0, bottom});
  dashed({-edge, row}, {-170 + edge, row});
  dashed({edge, row}, {170 - edge, row});
  return {{-right, row - quiet_height / 2}, {right, highest + 16}};
}

/// A drawing, and its visible part.
struct page_of_plan {
  canvas drawing;
  rectangle visible;
};

page_of_plan drawn_by(const plan& plan, picture drawn) {
  set_lanes(drawn);
  set_sizes(drawn);
  drawn.centre = centre_of(drawn);
  for (std::size_t place = 0; place < plan.exchanges.size(); ++place) {
    drawn.styles.push_back(style_of(drawn, place));
    drawn.changing.push_back(changes(plan.traffic[place]));
  }
  drawn.hub_text = hub_text_of(plan, drawn);
  if (!drawn.hub_text.empty()) {
    double width = 0;
    for (const auto& note : drawn.hub_text) width = std::max(width, width_of(note.text, small_text + 1));
    drawn.hub = box_at({0, 0}, width + 30, 17 * static_cast<double>(drawn.hub_text.size()) + 20);
  }
  lay_out(drawn);

  std::vector<std::string> names;
  for (const auto& exchange : plan.exchanges) names.push_back(exchange.name);
  page_of_plan page;
  auto& drawing = page.drawing;
  page.visible = draw_page(drawing, plan, drawn);
  draw_frames(drawing, drawn);
  draw_ties(drawing, drawn, names);
  for (std::uint32_t i = 0; i < drawn.units.size(); ++i) draw_unit(drawing, drawn, i);
  return page;
}

picture in_full(const plan& plan) {
  picture drawn{.units = {}, .regions = regions_by_node(plan)};
  for (std::uint32_t rank = 0; rank < plan.workers; ++rank) {
    const auto name = names_of(rank, 1);
    drawn.units.push_back(
        {.name = name, .title = name, .subtitle = worker_device(plan, rank), .region = plan.node_of(rank)});
  }
  add_servers(plan, drawn.units);
  if (const auto* exchange = grouped_exchange(plan)) {
    if (plan.nodes.size() == 1)
      divide_by_group(drawn, *exchange);
    else
      name_groups(drawn, *exchange);
  }
  drawn.ties = ties_of(plan, [](std::uint32_t id) { return id; });
  return drawn;
}

picture node_by_node(const plan& plan) {
  picture drawn{.units = {}, .regions = regions_by_node(plan)};
  const auto nodes = static_cast<std::uint32_t>(plan.nodes.size());
  for (std::uint32_t i = 0; i < nodes; ++i) {
    const auto workers = plan.nodes[i].workers;
    const bool several = workers > 1;
    const auto names = names_of(plan.nodes[i].first_rank, workers);
    drawn.units.push_back({.name = names,
                           .title = several ? grouped(workers) + " workers" : names,
                           .subtitle = several ? names : "",
                           .region = i,
                           .several = several});
  }
  if (plan.servers() > 0) drawn.units.push_back(servers_as_one(plan));
  drawn.ties = ties_of(plan, [&](std::uint32_t id) { return id < plan.workers ? plan.node_of(id) : nodes; });
  return drawn;
}

/// Draws all workers as one stack, and all servers as another.
picture in_one(const plan& plan) {
  const auto nodes = plan.nodes.size();
  const auto names = names_of(0, plan.workers);
  picture drawn{.units = {{.name = names,
                           .title = grouped(plan.workers) + " workers",
                           .subtitle = nodes > 1 ? "on " + grouped(nodes) + " nodes" : names,
                           .region = 0,
                           .several = true}},
                .regions = {region{}}};
  if (plan.servers() > 0) drawn.units.push_back(servers_as_one(plan));
  drawn.ties = ties_of(plan, [&](std::uint32_t id) { return id < plan.workers ? 0U : 1U; });
  return drawn;
}

page_of_plan drawn_by(const plan& plan, drawn_parts parts) {
  const auto in_detail = plan.actors.size() <= actors_drawn_max;
  const auto by_node = plan.nodes.size() > 1 && plan.nodes.size() <= nodes_drawn_max;
  auto drawn = in_detail ? in_full(plan) : by_node ? node_by_node(plan) : in_one(plan);
  drawn.wiring_only = parts == drawn_parts::wiring;
  if (drawn.wiring_only)
    for (auto& region : drawn.regions) region.quiet = false;
  return drawn_by(plan, std::move(drawn));
}

}  // namespace

std::string to_dot(const plan& plan, drawn_parts parts) {
  const auto [drawing, visible] = drawn_by(plan, parts);
  return drawing.dot("// " + std::string(drawing_mark) +
                         "; render it with: dot -Tsvg\n"
                         "// Each edge is an edge of the plan, with its exchange and its bytes per exchange. An "
                         "invisible edge is shown by a bundle, or by the second arrowhead of another edge.\n",
                     visible);
}

std::string to_svg(const plan& plan, drawn_parts parts) {
  const auto [drawing, visible] = drawn_by(plan, parts);
  return drawing.svg(visible);
}

std::string svg_of(const plan& plan) {
  return to_svg(plan);
}

}  // namespace troupe
