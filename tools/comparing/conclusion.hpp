// The paragraph of a report that answers the question: which variant won at what, and what the figures cannot say.
#pragma once

#include "troupe/tools/comparing/statistics.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace troupe::comparing {

/// A sentence with a heading, such as "Fastest to 97 %" and "star, after 12.3 s".
struct finding {
  std::string heading{}, text{};
};

struct conclusion {
  std::vector<finding> findings{};
  std::vector<std::string> limits{};  ///< Whole sentences on what the figures cannot say.

  /// Returns all sentences as one paragraph. `bold` marks a heading.
  template <class Bold>
  std::string paragraph(Bold bold) const {
    std::string text{};
    for (const auto& [heading, sentence] : findings) text += bold(heading + ":") + " " + sentence + " ";
    for (const auto& sentence : limits) text += sentence + " ";
    if (!text.empty()) text.pop_back();
    return text;
  }
};

/// Returns the conclusion from all runs that were made; `of` holds the summary of each variant.
conclusion conclude(const comparison& what, const std::vector<summary>& of);

/// A key whose value is not the same in all variants, with its value in each; empty where a variant does not have it.
struct differing_setting {
  std::string key{};
  std::vector<std::string> values{};
  std::string shown{};  ///< The key as readers see it, with the name of an exchange instead of its number.
};

/// Returns the settings that are not the same in all variants, in alphabetical order, without the seed. A setting that
/// only some kinds of exchange have is left out if no file sets it and every value is the default.
std::vector<differing_setting> differing_settings(const comparison& what);

}  // namespace troupe::comparing
