// The colours of a drawing on a light page. dark_styles() replaces each of them on a dark page: a new colour needs an
// entry in colours.cpp too.
#pragma once

#include <array>
#include <cstddef>
#include <string>

namespace troupe {

struct palette {
  const char *fill, *line, *text;
};

namespace colours {

constexpr palette worker{"#e7f0fa", "#2b6cb0", "#1a365d"};
constexpr palette hub{"#2b6cb0", "#2b6cb0", "#ffffff"};
constexpr palette server{"#1f6f64", "#1f6f64", "#ffffff"};
constexpr palette quiet{"#ffffff", "#b4bcc6", "#5b6673"};
constexpr palette node{"#ffffff", "#93a1b1", "#1f2933"};
constexpr palette group{"#fbf5e9", "#d8bd8c", "#7a5a1e"};
constexpr auto* page = "#ffffff";
constexpr auto* panel = "#f6f8fb";
constexpr auto* title = "#1f2933";
/// One colour for each exchange of a loop.
constexpr std::array exchanges{"#2b6cb0", "#c05621", "#2f855a", "#6b46c1", "#b83280", "#8a6d0b"};

constexpr const char* of_exchange(std::size_t place) {
  return exchanges[place % exchanges.size()];
}

}  // namespace colours

/// Returns an SVG <style> element that replaces the colours by their dark counterparts if the reader prefers dark
/// pages. It also applies to a file shown by <img>.
std::string dark_styles();

}  // namespace troupe
