// Suggests the nearest valid name for a mistyped one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::topology {

/// Returns the smallest number of insertions, deletions, replacements and swaps of adjacent letters that turn `a` into
/// `b`, where no letter is edited twice (optimal string alignment; Boytsov 2011, section 2.2). O(|a|·|b|).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// Returns the name nearest to `word`, or "" if none is near enough. Case and the difference between "-" and "_" are
/// ignored. A name is near enough if at most a third of the letters of `word` differ, or one letter.
/// A name that other frameworks use for a key (learning_rate for lr) counts as near.
std::string nearest(std::string_view word, const std::vector<std::string>& names);

/// Returns " (did you mean …?)" with the nearest name, or "" if there is none.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& names);

}  // namespace troupe::topology
