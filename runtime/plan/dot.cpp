// Draws a plan: workers and what they exchange in a panel, everybody else quietly below it. The positions are worked
// out here, since a wiring has a shape that people know (a star, a ring, a mesh) and no general layout finds it.
// Units: points; y grows upwards; the centre of the workers is the origin.
#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/support/units.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <numbers>
#include <optional>
#include <utility>

namespace troupe {

namespace {

constexpr std::size_t actors_drawn_max = 64;
constexpr double worker_width = 138, worker_height = 50;
constexpr double quiet_width = 104, quiet_height = 30;

struct palette {
  const char *fill, *line, *text;
};
constexpr palette worker_colours{"#e7f0fa", "#2b6cb0", "#1a365d"};
constexpr palette hub_colours{"#2b6cb0", "#2b6cb0", "#ffffff"};
constexpr palette quiet_colours{"#ffffff", "#b4bcc6", "#5b6673"};
constexpr auto* panel_colour = "#f6f8fb";
constexpr auto* title_colour = "#1f2933";
/// One for each exchange of a loop.
constexpr std::array exchange_colours{"#2b6cb0", "#c05621", "#2f855a", "#6b46c1"};

struct point {
  double x{0}, y{0};
};
point operator+(point a, point b) {
  return {a.x + b.x, a.y + b.y};
}
point operator-(point a, point b) {
  return {a.x - b.x, a.y - b.y};
}
point operator*(double factor, point a) {
  return {factor * a.x, factor * a.y};
}

std::string number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f", value == 0 ? 0.0 : value);  // no negative zero
  return text.data();
}
std::string number(point p) {
  return number(p.x) + "," + number(p.y);
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

std::string font(double size, const std::string& colour, const std::string& text) {
  return "<font point-size=\"" + number(size) + "\" color=\"" + colour + "\">" + escaped(text) + "</font>";
}
std::string bold(const std::string& html) {
  return "<b>" + html + "</b>";
}

/// Collects what is drawn, in DOT.
class canvas {
 public:
  void box(const std::string& name, point at, double width, double height, const palette& colours,
           const std::string& html, const std::string& more = {}) {
    nodes_ += "  \"" + name + "\" [pos=\"" + number(at) + "\", width=" + inches(width) + ", height=" + inches(height) +
              ", fillcolor=\"" + colours.fill + "\", color=\"" + colours.line + "\"" + more + ", label=<" + html +
              ">]\n";
  }

  /// Text without a box; its width depends on the font, so it is centred.
  void text(const std::string& name, point at, const std::string& html) {
    nodes_ += "  \"" + name + "\" [shape=plain, style=\"\", fixedsize=false, pos=\"" + number(at) + "\", label=<" +
              html + ">]\n";
  }

  /// A line between two boxes, from tip to tip, with arrowheads of this length (0: none).
  void line(const std::string& from, const std::string& to, point first, point last, double head_at_first,
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

  /// A filled rectangle with round corners behind everything.
  void panel(double left, double bottom, double right, double top) {
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
    background_ =
        "c 7 -" + std::string(panel_colour) + " C 7 -" + panel_colour + " b " + std::to_string(count) + points;
  }

  std::string dot(const std::string& heading, point low, point high) const {
    return heading +
           "digraph troupe {\n"
           "  graph [layout=nop2, bb=\"" +
           number(low) + "," + number(high) + "\", pad=0.25, bgcolor=white, outputorder=edgesfirst, _background=\"" +
           background_ +
           "\"]\n"
           "  node [shape=box, style=\"rounded,filled\", fixedsize=true, penwidth=1.4, "
           "fontname=\"Helvetica,Arial,sans-serif\"]\n"
           "  edge [arrowhead=normal, arrowtail=normal]\n" +
           nodes_ + edges_ + "}\n";
  }

 private:
  static std::string inches(double points) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.4f", points / 72);
    return text.data();
  }

  std::string nodes_, edges_, background_;
};

/// Traffic between two workers, both ways, over one exchange.
struct tie {
  std::uint32_t a{0}, b{0};
  std::uint64_t bytes_there{0}, bytes_back{0};
  std::size_t exchange{0};
};

std::vector<tie> ties_of(const plan& plan) {
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::size_t>, tie> ties;
  for (std::size_t place = 0; place < plan.exchanges.size(); ++place)
    for (const auto& edge : plan.exchanges[place].edges) {
      const auto [a, b] = std::minmax(edge.from, edge.to);
      if (a == b) continue;
      auto& tie = ties[{a, b, place}];
      tie.a = a;
      tie.b = b;
      tie.exchange = place;
      (edge.from == a ? tie.bytes_there : tie.bytes_back) += edge.bytes;
    }
  std::vector<tie> list;
  for (const auto& [where, tie] : ties) list.push_back(tie);
  return list;
}

/// The worker that all traffic goes through, if there is one among three or more.
std::optional<std::uint32_t> hub_of(const std::vector<tie>& ties, std::uint32_t workers) {
  if (workers < 3 || ties.empty()) return {};
  for (const auto candidate : {ties.front().a, ties.front().b})
    if (std::all_of(ties.begin(), ties.end(), [&](const auto& t) { return t.a == candidate || t.b == candidate; }))
      return candidate;
  return {};
}

bool room_between(const std::vector<point>& places) {
  for (std::size_t i = 0; i < places.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const auto apart = places[i] - places[j];
      if (std::abs(apart.x) < worker_width + 100 && std::abs(apart.y) < worker_height + 58) return false;
    }
  return true;
}

/// Workers in rank order, clockwise on an ellipse as small as their boxes allow; the hub in its centre.
std::vector<point> places_of(std::uint32_t workers, const std::optional<std::uint32_t>& hub) {
  const auto around = hub ? workers - 1 : workers;
  if (workers == 1) return {{0, 0}};
  for (double height = 40;; height += 4) {
    std::vector<point> places;
    for (std::uint32_t i = 0; places.size() < workers; ++i) {
      if (hub && places.size() == *hub) places.push_back({0, 0});
      if (places.size() == workers) break;
      // An even number has a flat top, an odd one a tip.
      const auto turn = (i + (around % 2 == 0 ? 0.5 : 0.0)) / around;
      // The first of an even number lies left of the middle, so that ranks read like a page.
      const auto angle = std::numbers::pi * (0.5 - 2 * (around % 2 == 0 ? turn - 1.0 / around : turn));
      places.push_back({2 * height * std::cos(angle), height * std::sin(angle)});
    }
    if (room_between(places)) return places;
  }
}

/// Where the ray from `inside` along `way` leaves a worker's box, a little beyond its border.
point leaving(point centre, point inside, point way) {
  constexpr double gap = 4;
  const auto reach = [](double from, double step, double low, double high) {
    if (step == 0) return 1e9;
    return ((step > 0 ? high : low) - from) / step;
  };
  const auto t =
      std::min(reach(inside.x, way.x, centre.x - worker_width / 2 - gap, centre.x + worker_width / 2 + gap),
               reach(inside.y, way.y, centre.y - worker_height / 2 - gap, centre.y + worker_height / 2 + gap));
  return inside + t * way;
}

std::string worker_name(std::uint32_t rank) {
  return "worker " + std::to_string(rank);
}

std::string worker_label(const plan& plan, const std::string& name, const palette& colours) {
  const auto& device = plan.file.workers.device;
  const auto where = device == "auto" ? std::string("cpu") : device;
  return bold(font(14, colours.text, name)) + "<br/>" +
         font(10, colours.text, "compute: " + where + ", batch " + std::to_string(plan.sampling.batch_size));
}

std::string amount(const tie& tie) {
  if (tie.bytes_there == 0 || tie.bytes_back == 0) return human_bytes(tie.bytes_there + tie.bytes_back);
  if (tie.bytes_there == tie.bytes_back) return human_bytes(tie.bytes_there);  // and as much the other way
  return human_bytes(tie.bytes_there) + " / " + human_bytes(tie.bytes_back);
}

void draw_ties(canvas& drawing, const std::vector<tie>& ties, const std::vector<point>& places, std::size_t exchanges,
               bool labelled) {
  const bool dense = ties.size() > 12;
  const double head = dense ? 6 : 9;
  for (const auto& tie : ties) {
    const auto from = places[tie.a];
    const auto to = places[tie.b];
    const auto way = to - from;
    const auto length = std::hypot(way.x, way.y);
    // Several exchanges between the same two run side by side.
    const auto aside = 14 * (static_cast<double>(tie.exchange) - (static_cast<double>(exchanges) - 1) / 2);
    const point shift{-way.y / length * aside, way.x / length * aside};
    const auto first = leaving(from, from + shift, way);
    const auto last = leaving(to, to + shift, -1 * way);
    const std::string colour = exchange_colours[tie.exchange % exchange_colours.size()];
    drawing.line(worker_name(tie.a), worker_name(tie.b), first, last, tie.bytes_back > 0 ? head : 0,
                 tie.bytes_there > 0 ? head : 0,
                 "color=\"" + colour + "\", penwidth=" + (dense ? "1.0" : "1.8") + ", arrowsize=" + number(head / 10));
    if (!labelled) continue;
    const auto label = "<table border=\"0\" cellborder=\"0\" cellpadding=\"2\" bgcolor=\"" + std::string(panel_colour) +
                       "\"><tr><td>" + font(10, colour, amount(tie)) + "</td></tr></table>";
    drawing.text("traffic " + std::to_string(tie.a) + " " + std::to_string(tie.b) + " " + std::to_string(tie.exchange),
                 0.5 * (first + last), label);
  }
}

/// The settings by name that are not as usual: " (route = ring)".
std::string choices_of(const planned_exchange& exchange) {
  std::string choices;
  for (const auto& setting : exchange.kind->settings) {
    const auto given = exchange.settings.find(setting.name);
    if (given == exchange.settings.end()) continue;
    const auto* value = std::get_if<std::string>(&given->second);
    if (value == nullptr || *value == setting.default_text || '"' + *value + '"' == setting.default_text) continue;
    choices += (choices.empty() ? "" : ", ") + setting.name + " = " + *value;
  }
  return choices.empty() ? "" : " (" + choices + ")";
}

/// The traffic of an edge: from the least to the most.
std::string range_of(const std::vector<planned_edge>& edges) {
  if (edges.empty()) return {};
  const auto by_bytes = [](const planned_edge& a, const planned_edge& b) { return a.bytes < b.bytes; };
  const auto [least, most] = std::minmax_element(edges.begin(), edges.end(), by_bytes);
  const auto from = human_bytes(least->bytes);
  const auto to = human_bytes(most->bytes);
  return from == to ? from : from + " to " + to;
}

/// Two lines of HTML.
struct caption {
  std::string what, cost;
};

/// What each exchange is and costs; and what an arrow without a label carries.
std::vector<caption> captions_of(const plan& plan, bool labelled) {
  std::vector<caption> captions;
  for (std::size_t place = 0; place < plan.exchanges.size(); ++place) {
    const auto& exchange = plan.exchanges[place];
    std::uint64_t messages = 0;
    std::uint64_t bytes = 0;
    for (const auto& edge : exchange.edges) messages += edge.messages, bytes += edge.bytes;
    const std::string colour = exchange_colours[place % exchange_colours.size()];
    caption caption;
    caption.what =
        font(12, colour,
             exchange.name + ": " + exchange.kind->name + choices_of(exchange) + " of the " + name_of(exchange.sends));
    auto cost = grouped(messages) + " messages and " + human_bytes(bytes) + " a step";
    if (!labelled) cost += ", " + range_of(exchange.edges) + " along each arrow";
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

/// What surrounds the workers, which lie between the corners `low` and `high`: panel, captions, title, and the quiet
/// actors.
std::string framed(canvas& drawing, const plan& plan, point low, point high, const std::vector<caption>& captions) {
  const double right = std::max(high.x + 40, 300.0);
  const double top = high.y + 36;
  const double bottom = low.y - 20 - 40 * static_cast<double>(captions.size());
  drawing.panel(-right, bottom, right, top);
  drawing.text("title", {0, top + 56}, bold(font(20, title_colour, title_of(plan))));
  drawing.text("subtitle", {0, top + 26}, font(13, quiet_colours.text, subtitle_of(plan)));
  for (std::size_t i = 0; i < captions.size(); ++i) {
    const double line = low.y - 26 - 40 * static_cast<double>(i);
    drawing.text("exchange " + std::to_string(i), {0, line}, captions[i].what);
    if (!captions[i].cost.empty()) drawing.text("cost " + std::to_string(i), {0, line - 17}, captions[i].cost);
  }

  const double row = bottom - 46;
  const auto quiet = [&](const std::string& name, double x) {
    drawing.box(name, {x, row}, quiet_width, quiet_height, quiet_colours, font(11, quiet_colours.text, name),
                ", penwidth=1");
  };
  quiet("evaluator", -170);
  quiet("coordinator", 0);
  quiet("recorder", 170);
  const std::string dashed = "color=\"" + std::string(quiet_colours.line) + "\", style=dashed, penwidth=1";
  const double edge = quiet_width / 2 + 2;
  drawing.line("coordinator", "worker 0", {0, row + quiet_height / 2 + 2}, {0, bottom}, 0, 0, dashed);
  drawing.line("coordinator", "evaluator", {-edge, row}, {-170 + edge, row}, 0, 0, dashed);
  drawing.line("coordinator", "recorder", {edge, row}, {170 - edge, row}, 0, 0, dashed);
  return drawing.dot("// Drawn by troupe graph; render it with: dot -Tsvg\n", {-right, row - quiet_height / 2},
                     {right, top + 70});
}

std::string in_full(const plan& plan) {
  const auto ties = ties_of(plan);
  const auto hub = hub_of(ties, plan.workers);
  const auto places = places_of(plan.workers, hub);
  // Lines that cross would have labels upon each other; then the caption says what each line carries.
  const bool labelled = ties.size() <= 8 && ties.size() <= plan.workers;
  canvas drawing;
  point low;
  point high;
  for (const auto& place : places) {
    low = {std::min(low.x, place.x - worker_width / 2), std::min(low.y, place.y - worker_height / 2)};
    high = {std::max(high.x, place.x + worker_width / 2), std::max(high.y, place.y + worker_height / 2)};
  }
  for (std::uint32_t rank = 0; rank < plan.workers; ++rank) {
    const auto& colours = hub == rank ? hub_colours : worker_colours;
    drawing.box(worker_name(rank), places[rank], worker_width, worker_height, colours,
                worker_label(plan, worker_name(rank), colours));
  }
  draw_ties(drawing, ties, places, plan.exchanges.size(), labelled);
  return framed(drawing, plan, low, high, captions_of(plan, labelled));
}

std::string in_summary(const plan& plan) {
  canvas drawing;
  for (int i = 2; i >= 0; --i)
    drawing.box(i == 0 ? "worker 0" : "stack " + std::to_string(i), {7.0 * i, 7.0 * i}, worker_width + 40,
                worker_height + 10, worker_colours,
                i == 0 ? worker_label(plan, grouped(plan.workers) + " workers", worker_colours) : std::string(" "));
  return framed(drawing, plan, {-worker_width, -worker_height / 2}, {worker_width, worker_height},
                captions_of(plan, true));
}

}  // namespace

std::string to_dot(const plan& plan) {
  return plan.actors.size() <= actors_drawn_max ? in_full(plan) : in_summary(plan);
}

}  // namespace troupe
