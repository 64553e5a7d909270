// What `troupe check` prints and `troupe graph` draws: a plan as text, as JSON and as a picture.
#pragma once

#include "troupe/runtime/plan/plan.hpp"

#include <string>

namespace troupe {

/// Describes the plan for people: actors, placement, edges, bytes per step.
std::string describe(const plan& plan);

/// Describes the plan as one JSON object, for programs.
std::string describe_json(const plan& plan);

/// What a drawing shows.
enum class drawn_parts {
  all,
  wiring,  ///< Without the title, the evaluator, the coordinator and the recorder.
};

/// Draws the wiring as SVG, with dark colours for dark pages: up to 64 actors in full; beyond that, one box per node
/// for up to 20 nodes, or one box for all workers.
std::string to_svg(const plan& plan, drawn_parts parts = drawn_parts::all);

/// Draws the same in Graphviz's DOT language. In a full drawing, each edge of the plan is an edge of the DOT text; in a
/// summary, each pair of boxes has one for each direction and exchange. Some edges are invisible because they are
/// bundled.
std::string to_dot(const plan& plan, drawn_parts parts = drawn_parts::all);

/// Returns the whole wiring as SVG: graph.svg of a results folder.
std::string svg_of(const plan& plan);

}  // namespace troupe
