#include "troupe/tools/drawing/colours.hpp"

#include <utility>

namespace troupe {

namespace {

/// Light colours and their dark counterparts. White is the colour of the page and of text on dark boxes, which are
/// light on a dark page.
constexpr std::array<std::pair<const char*, const char*>, 18> counterparts{{
    {"#ffffff", "#0d1117"},  // the page, white boxes, text on filled boxes
    {"#f6f8fb", "#161b22"},  // the panel
    {"#e7f0fa", "#16304f"},  // workers
    {"#1a365d", "#dbeafe"},  // text on workers
    {"#1f6f64", "#56c2b2"},  // servers
    {"#b4bcc6", "#4b5563"},  // lines of actors that do not compute
    {"#5b6673", "#9da7b3"},  // small print
    {"#93a1b1", "#5d6b7a"},  // frames of nodes
    {"#1f2933", "#e6edf3"},  // titles
    {"#fbf5e9", "#262013"},  // groups
    {"#d8bd8c", "#7d6636"},  // frames of groups
    {"#7a5a1e", "#e3c585"},  // names of groups
    {"#2b6cb0", "#6cb0f5"},  // exchanges, from here on; hubs have the colour of the first
    {"#c05621", "#f0955c"},
    {"#2f855a", "#62c48c"},
    {"#6b46c1", "#b197fc"},
    {"#b83280", "#f27eb8"},
    {"#8a6d0b", "#d9b53c"},
}};

}  // namespace

std::string dark_styles() {
  std::string styles = "<style>@media (prefers-color-scheme: dark) {\n";
  for (const auto& [light, dark] : counterparts)
    for (const std::string property : {"fill", "stroke"})
      styles += "[" + property + "=\"" + light + "\"] { " + property + ": " + dark + " }\n";
  return styles + "}</style>\n";
}

}  // namespace troupe
