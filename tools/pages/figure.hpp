// Draws one figure as SVG: curves with bands, points with ranges, bars, or ranges in rows. It does not depend on what
// the values mean.
// The figure has no colours of its own: they come from figure_style(), for light and dark pages and for print. The
// palette is that of Okabe and Ito (2008), with dashes and markers, so that figures can be read without distinguishing
// colours.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe::pages {

struct axis {
  std::string title{};  ///< With the unit.
  bool logarithmic{false};
  std::string column{};  ///< Name in csv_of() and among the axes of a figure.
  double unit{1};        ///< Unit of the axis in units of csv_of(), such as 60 for minutes in seconds.
};

/// A point of a series, in the units of the axes.
struct mark {
  double x{0}, y{0};
  std::optional<std::pair<double, double>> x_range{}, y_range{};  ///< Smallest and largest value, if there are several.
  std::string text{};                                             ///< Shown while the pointer is near.
  std::vector<double> other_x{};  ///< Its places on figure::other_x; not finite where it has none.
};

struct series {
  std::string name{};
  std::size_t style{0};  ///< Colour, dashes and marker.
  std::vector<mark> marks{};
};

enum class figure_kind {
  curves,  ///< Each series is a line, and its ranges of y are a band.
  points,  ///< Each mark is a point, with lines for its ranges.
  bars,    ///< Each mark is a bar from 0 to y.
  rows,    ///< Each series is a row of its own: a point with its range of x, or only its name. y is not used.
};

struct figure {
  std::string name{};  ///< Stem of its files.
  std::string title{};
  figure_kind kind{};
  axis x{}, y{};
  std::vector<series> all{};
  /// Further horizontal axes, and whether there is a logarithmic vertical one: a reader of the page may choose among
  /// them. Only for curves. Without the script of the page, `x` and `y` are shown.
  std::vector<axis> other_x{};
  bool offers_logarithmic_y{false};

  /// Returns whether there is anything to draw.
  bool has_values() const;
};

/// Returns the figure as an element <svg class="figure">. With a logarithmic axis, values that are not positive are
/// left out. Each line has the attribute data-points: a JSON list of [x, y, text] in the coordinates of the drawing.
std::string draw(const figure& what);

/// Returns the values of a figure as CSV, with a header: the series, x, y, the range of y, and the places on the other
/// horizontal axes.
std::string csv_of(const figure& what);

/// Returns an element <figure> with drawings of the figure of this name, and buttons that save it as SVG and as CSV.
std::string card_of(const std::string& name, const std::string& drawings);

/// Returns the styles of all figures.
std::string figure_style();

/// Returns a drawing with its styles, as a file of its own.
std::string standalone(const std::string& drawing);

/// Returns positions of about `count` round numbers from `low` to `high`, such as 0, 5, 10 or, on a logarithmic axis,
/// 1, 2, 5, 10.
std::vector<double> ticks(double low, double high, bool logarithmic, int count);

}  // namespace troupe::pages
