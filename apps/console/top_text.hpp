// What `troupe top` shows of a run, as lines of text.
#pragma once

#include "troupe/tools/watching/seen_run.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace troupe::apps {

struct top_page {
  std::size_t columns{100};
  std::size_t rows{1000};  ///< Rows of tables that do not fit are left out.
  bool coloured{false};
};

/// Returns the lines, none wider than the page.
std::vector<std::string> top_lines(const watching::seen_run& run, const top_page& page);

}  // namespace troupe::apps
