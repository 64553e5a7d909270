// A plan reduced to what a drawing shows: boxes, the frames around them, and the ties between them. dot.cpp makes one
// of a plan, layout.hpp places it, ties.hpp draws the ties. It knows neither exchanges nor tensors.
// Units: points; y grows upwards.
#pragma once

#include "troupe/runtime/plan/canvas.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// What is drawn as one box: a worker or a server, or in a summary all of a node.
struct unit {
  std::string name;             ///< What DOT calls it.
  std::string title, subtitle;  ///< What stands in the box; the subtitle may be empty.
  std::uint32_t region{0};
  bool several{false};
  bool server{false};
  double width{84}, height{40};
};

/// What has a frame around its units, or would have, had it a name: a node, a group, or a unit in neither.
struct region {
  std::string name{}, address{};
  bool quiet{false};  ///< Evaluator, coordinator and recorder stand in it.
  const palette* colours{&colours::node};
};

/// Traffic between two units, both ways, over one exchange.
struct tie {
  std::uint32_t a{0}, b{0};
  bool there{false}, back{false};  ///< Whether there is an edge from a to b, and one from b to a.
  std::uint64_t bytes_there{0}, bytes_back{0};
  std::size_t exchange{0};
  std::size_t lane{0}, lanes{1};  ///< Of the ties between these two, which run side by side.
  point bow{};                    ///< Where it goes around boxes: the way it leaves both its ends, and how far.
};

/// How the ties of one exchange are drawn.
enum class tie_style : std::uint8_t {
  lines,   ///< Each is a line.
  faint,   ///< Too many for that: those of the first unit are lines, the others are faint.
  bundle,  ///< Every unit is tied to every other: each has one line to a hub in the middle.
  bus,     ///< Every worker is tied to every server: each has one line to a bar between them.
};

/// The frame of a region, and what stands in it besides its units.
struct frame {
  rectangle border;
  point title, address;
  std::vector<point> quiet;  ///< Middles of the quiet actors: evaluator, coordinator, recorder.
};

/// A line of text.
struct note {
  std::string text, colour;
};

/// What a drawing shows. Whoever makes it fills in the first
/// part; layout.hpp fills in the second.
struct picture {
  std::vector<unit> units;
  std::vector<region> regions{};
  std::vector<tie> ties{};
  std::vector<tie_style> styles{};  ///< By exchange.
  std::vector<bool> changing{};     ///< By exchange: its ties are not all used each time, and are dashed.
  std::optional<rectangle> hub{};   ///< Of bundles; made with its size, then moved to its place.
  std::vector<note> hub_text{};
  std::optional<std::uint32_t> centre{};  ///< The unit that all traffic goes through, if there is one.

  std::vector<point> places{};  ///< By unit.
  std::vector<frame> frames{};  ///< By region; none where there is but one.
  std::vector<double> bars{};   ///< Of a bus: the heights at which its bars run.
  rectangle bounds{};
};

rectangle box_at(point centre, double width, double height);
rectangle box_at(point centre, const unit& unit);
point middle(const rectangle& box);
void include(rectangle& frame, const rectangle& more);

/// Returns where the ray from `inside` along `way` leaves a box, `gap` beyond its border.
point leaving(const rectangle& box, point inside, point way, double gap);

constexpr double quiet_width = 88, quiet_height = 28;

/// No drawing is wider than this, so that its smallest text has 12 pixels where the drawing is 830 wide.
constexpr double width_max = 760, small_text = 11;
/// Room around the units up to the edge of the drawing, on both sides together.
constexpr double margins = 92;

/// Returns about how wide a text is; the real font is not known here.
double width_of(const std::string& text, double size);

}  // namespace troupe
