// What a drawing says in words: what it is of, and what each exchange does and costs.
#pragma once

#include "troupe/runtime/plan/picture.hpp"
#include "troupe/runtime/plan/plan.hpp"

#include <string>
#include <vector>

namespace troupe {

/// Lines of HTML, each no wider than a drawing.
using lines_of_text = std::vector<std::string>;

/// Says whether other edges are used from one exchange to the next.
bool changes(const planned_exchange& exchange);

/// Returns the lines above the drawing, below its title. `where`: what they say of the nodes; may be empty.
lines_of_text subtitle_of(const plan& plan, const std::string& where);

/// Returns, by exchange, what it is and costs; and what an arrow without a label carries.
std::vector<lines_of_text> captions_of(const plan& plan, const picture& drawn);

/// Returns what the hub of bundled edges says, a line for each exchange at least.
std::vector<note> hub_text_of(const plan& plan, const picture& drawn);

/// Returns `text` in lines of at most this width.
std::vector<std::string> wrapped(const std::string& text, double size, double width);

}  // namespace troupe
