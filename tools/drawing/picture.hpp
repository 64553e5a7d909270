// What a drawing shows of a plan: boxes, the frames around them, and the ties between them. dot.cpp makes a picture
// from a plan, layout.hpp places its parts, ties.hpp draws the ties. Pictures do not depend on plans. Units: points; y
// grows upwards.
#pragma once

#include "troupe/tools/drawing/canvas.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// A box of the drawing: a worker or a server, or in a summary all workers of a node.
struct unit {
  std::string name;             ///< Its name in the DOT text.
  std::string title, subtitle;  ///< The text in the box; the subtitle may be empty.
  std::uint32_t region{0};
  bool several{false};
  bool server{false};
  double width{84}, height{40};
};

/// Units that share a frame: a node or a group. A region without a name has no frame.
struct region {
  std::string name{}, address{};
  bool quiet{false};  ///< Evaluator, coordinator and recorder are in it.
  const palette* colours{&colours::node};
};

/// Traffic between two units, both ways, over one exchange.
struct tie {
  std::uint32_t a{0}, b{0};
  bool there{false}, back{false};  ///< Whether there is an edge from a to b, and one from b to a.
  std::uint64_t bytes_there{0}, bytes_back{0};
  std::size_t exchange{0};
  std::size_t lane{0}, lanes{1};  ///< Position among the ties between these two, which run side by side.
  point bow{};                    ///< For a tie around boxes: the direction in which it leaves both ends, and how far.
};

/// How the ties of one exchange are drawn.
enum class tie_style : std::uint8_t {
  lines,   ///< Each tie is a line.
  faint,   ///< There are too many: the ties of the first unit are lines, the others are faint.
  bundle,  ///< Every unit is tied to every other: each has one line to a hub in the middle.
  bus,     ///< Every worker is tied to every server: each has one line to a bar between them.
};

/// The frame of a region, and the places of its text and actors.
struct frame {
  rectangle border;
  point title, address;
  std::vector<point> quiet;  ///< Centres of evaluator, coordinator and recorder, if they are in it.
};

/// A line of text.
struct note {
  std::string text, colour;
};

/// All parts of a drawing. dot.cpp fills in the first part, lay_out() the second.
struct picture {
  std::vector<unit> units;
  std::vector<region> regions{};
  std::vector<tie> ties{};
  std::vector<tie_style> styles{};  ///< By exchange.
  std::vector<bool>
      changing{};  ///< By exchange: whether its ties change from one exchange to the next. They are dashed.
  std::optional<rectangle> hub{};  ///< Hub of bundles. Its size is set from the start; lay_out() moves it.
  std::vector<note> hub_text{};
  std::optional<std::uint32_t> centre{};  ///< The unit that is at one end of every tie, if there is one.
  bool wiring_only{false};                ///< Without title, evaluator, coordinator and recorder.

  std::vector<point> places{};  ///< By unit.
  std::vector<frame> frames{};  ///< By region; empty if there is only one region.
  std::vector<double> bars{};   ///< Heights of the bars of a bus.
  rectangle bounds{};
};

rectangle box_at(point centre, double width, double height);
rectangle box_at(point centre, const unit& unit);
point middle(const rectangle& box);
void include(rectangle& frame, const rectangle& more);

/// Returns where the ray from `inside` along `way` leaves a box, `gap` beyond its border.
point leaving(const rectangle& box, point inside, point way, double gap);

constexpr double quiet_width = 88, quiet_height = 28;

/// The usual maximum width of a drawing. Its smallest text then has 12 pixels if the drawing is shown 830 pixels wide.
constexpr double width_max = 760, small_text = 11;
/// Space between the units and the edges of the drawing, left and right together.
constexpr double margins = 92;

}  // namespace troupe
