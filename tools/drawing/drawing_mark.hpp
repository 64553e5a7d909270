// The mark of a drawing of Troupe, in a comment at its beginning.
#pragma once

namespace troupe {

/// No other program writes this, so a file that contains it may be replaced.
constexpr auto* drawing_mark = "Drawn by troupe graph";

}  // namespace troupe
