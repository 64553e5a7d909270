// The text of a drawing: what runs, what each exchange does, and what it costs.
#pragma once

#include "troupe/runtime/plan/plan.hpp"
#include "troupe/tools/drawing/picture.hpp"

#include <string>
#include <vector>

namespace troupe {

/// Lines of text, each no wider than a drawing.
using lines_of_text = std::vector<words>;

/// Returns whether the edges change from one exchange to the next.
bool changes(const exchange_traffic& traffic);

/// Returns in which steps an exchange takes place, such as "every 8 steps from step 101"; empty if in all.
std::string when_of(const planned_exchange& exchange);

/// Returns how messages are encoded, in the words of a topology file.
std::string encoding_of(const encoding_options& options);

/// Returns the lines between the title and the drawing. `where`: a note on the nodes; may be empty.
lines_of_text subtitle_of(const plan& plan, const std::string& where);

/// Returns the caption of each exchange: what it does, what it costs, and what an arrow without a label carries.
std::vector<lines_of_text> captions_of(const plan& plan, const picture& drawn);

/// Returns the text of the hub of bundled edges, with at least one line for each exchange; empty if none is bundled.
std::vector<note> hub_text_of(const plan& plan, const picture& drawn);

/// Returns `text` broken into lines of at most this width, in points.
std::vector<std::string> wrapped(const std::string& text, double size, double width);

}  // namespace troupe
