// The nearest valid name, for whoever mistyped one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::topology {

/// Returns the least number of insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`, no
/// letter being edited twice (optimal string alignment; Boytsov 2011, section 2.2). O(|a|·|b|).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// Returns the name nearest to `word`, upper and lower case and "-" and "_" being the same, or "" where none is near
/// enough to be meant: at most a third of the letters may differ, and at least one may. The names of other frameworks
/// ("learning_rate" for lr) count as near.
std::string nearest(std::string_view word, const std::vector<std::string>& names);

/// Returns " (did you mean …?)" for the nearest name, or "".
std::string did_you_mean(std::string_view word, const std::vector<std::string>& names);

}  // namespace troupe::topology
