#include "troupe/tools/comparing/figures.hpp"

#include "troupe/runtime/support/csv.hpp"
#include "troupe/runtime/support/units.hpp"
#include "troupe/tools/comparing/words.hpp"
#include "troupe/tools/pages/axis_unit.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

namespace troupe::comparing {

namespace {

using pages::figure;
using pages::figure_kind;
using pages::series;

using to_text = std::function<std::string(double)>;

/// A quantity, and the unit in which an axis shows it.
struct axis_quantity {
  std::string name;   ///< Used in file names and CSV headers, in the unit of measurement.
  std::string title;  ///< Title of the axis, with the unit in which it is shown.
  double unit{1};     ///< Size of that unit.
  to_text text;       ///< Formats a value.
};

axis_quantity time_of(const comparison& what, double largest) {
  const auto [name, size] = pages::unit_of_seconds(largest);
  const auto* title = what.simulated ? "virtual time" : "time";
  return {"seconds", std::string(title) + " (" + name + ")", size, seconds_text};
}

axis_quantity bytes_of(double largest) {
  const auto [name, size] = pages::unit_of_bytes(largest);
  return {"bytes_sent", std::string("sent by all workers and servers (") + name + ")", size, bytes_text};
}

axis_quantity samples_of(double largest) {
  const auto [name, size] = pages::unit_of_samples(largest);
  return {"samples", std::string("training samples") + (*name == 0 ? "" : " (" + std::string(name) + ")"), size,
          count_text};
}

using get_value = std::function<std::optional<double>(const curve_point&)>;
using get_spread = std::function<std::optional<spread>(const curve_point&)>;

double largest_of(const std::vector<summary>& of, const get_value& value) {
  double largest = 0;
  for (const auto& measured : of)
    for (const auto& at : measured.curve) largest = std::max(largest, value(at).value_or(0));
  return largest;
}

std::optional<std::pair<double, double>> range_of(const spread& of, double factor) {
  if (of.count < 2) return std::nullopt;
  return std::pair(factor * of.low, factor * of.high);
}

/// Returns 1 minus a share, with its range.
spread errors_of(const spread& of) {
  return {.median = 1 - of.median, .low = 1 - of.high, .high = 1 - of.low, .count = of.count};
}

/// Returns whether positive values differ by so large a factor that a linear axis would squeeze the smaller ones.
bool are_wide_apart(const std::vector<double>& values) {
  constexpr double factor = 20;
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (const auto value : values) {
    if (!(value > 0) || !std::isfinite(value)) continue;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  return most > factor * least;
}

/// Returns where the series of a figure end on the horizontal axis.
std::vector<double> ends_of(const figure& of) {
  std::vector<double> ends;
  for (const auto& line : of.all)
    if (!line.marks.empty()) ends.push_back(line.marks.back().x);
  return ends;
}

figure_pair pair_of(figure linear, figure logarithmic, std::string csv) {
  const bool is_wide = are_wide_apart(ends_of(linear));
  return {std::move(linear), std::move(logarithmic), std::move(csv), is_wide};
}

std::string csv_row(const std::string& label, double x, const spread& y) {
  return csv_field(label) + "," + csv_number(x) + "," + csv_number(y.median) + "," + csv_number(y.low) + "," +
         csv_number(y.high) + "," + std::to_string(y.count) + "\n";
}

/// What a curve shows on its axes.
struct curve_axes {
  axis_quantity of_x;
  get_value x;
  get_spread y;
  bool accuracy{false};
};

figure_pair curves(const comparison& what, const std::vector<summary>& of, const curve_axes& axes) {
  const std::string name = axes.accuracy ? "accuracy" : "loss";
  const auto& [column, title, size, text] = axes.of_x;
  figure linear{.name = name + "-" + column,
                .title = std::string("Validation ") + name,
                .kind = figure_kind::curves,
                .x = {.title = title},
                .y = {.title = axes.accuracy ? "validation accuracy (%)" : "validation loss"},
                .all = {}};
  auto logarithmic = linear;
  logarithmic.name += "-logarithmic";
  logarithmic.x.logarithmic = logarithmic.y.logarithmic = true;
  if (axes.accuracy) {
    logarithmic.title = "Validation errors";
    logarithmic.y.title = "1 − validation accuracy (%)";
  }
  auto csv = "variant," + column + ",val_" + name + ",lowest,highest,repeats\n";
  const to_text y_text = axes.accuracy ? to_text(percent_text) : to_text(number_text);
  const double factor = axes.accuracy ? 100 : 1;
  for (std::size_t i = 0; i < of.size(); ++i) {
    const auto& label = what.variants[i].label;
    series line{.name = label, .style = i, .marks = {}}, inverse = line;
    for (const auto& at : of[i].curve) {
      const auto x = axes.x(at);
      const auto y = axes.y(at);
      if (!x || !y) continue;
      const auto shown = label + ": " + spread_text(y, y_text) + " after " + text(*x) + ", step " + grouped(at.step);
      line.marks.push_back({.x = *x / size,
                            .y = factor * y->median,
                            .x_range = std::nullopt,
                            .y_range = range_of(*y, factor),
                            .text = shown});
      const auto other = axes.accuracy ? errors_of(*y) : *y;
      inverse.marks.push_back(line.marks.back());
      inverse.marks.back().y = factor * other.median;
      inverse.marks.back().y_range = range_of(other, factor);
      csv += csv_row(label, *x, *y);
    }
    linear.all.push_back(std::move(line));
    logarithmic.all.push_back(std::move(inverse));
  }
  return pair_of(std::move(linear), std::move(logarithmic), std::move(csv));
}

/// A cost of a run: how its spread is obtained, and how it is shown.
struct cost {
  axis_quantity of;
  std::function<std::optional<spread>(const summary&)> value;
};

std::vector<cost> costs_of(const comparison& what, const std::vector<summary>& of, bool of_target) {
  const auto taken = [](const std::optional<to_target>& from) {
    return from && from->is_finite() ? std::optional(from->taken) : std::nullopt;
  };
  std::vector<cost> costs(2);
  costs[0].value = [=](const summary& measured) {
    return of_target ? taken(measured.seconds_to_target) : measured.seconds;
  };
  costs[1].value = [=](const summary& measured) {
    return of_target ? taken(measured.bytes_to_target) : measured.bytes;
  };
  std::vector<double> largest;
  for (const auto& by : costs) {
    double most = 0;
    for (const auto& measured : of)
      if (const auto value = by.value(measured))
        most = std::max(most, std::isfinite(value->high) ? value->high : value->median);
    largest.push_back(most);
  }
  costs[0].of = time_of(what, largest[0]);
  costs[1].of = bytes_of(largest[1]);
  return costs;
}

figure_pair rows(const comparison& what, const std::vector<summary>& of, const cost& by, const std::string& title) {
  std::vector<std::size_t> order(of.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto median = [&](std::size_t i) {
    const auto value = by.value(of[i]);
    return value ? value->median : std::numeric_limits<double>::infinity();
  };
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return median(a) < median(b); });
  figure linear{.name = "target-" + by.of.name,
                .title = title,
                .kind = figure_kind::rows,
                .x = {.title = by.of.title},
                .y = {},
                .all = {}};
  auto csv = "variant," + by.of.name + ",lowest,highest,repeats\n";
  for (const auto i : order) {
    series row{.name = what.variants[i].label, .style = i, .marks = {}};
    if (const auto value = by.value(of[i])) {
      // Where a repeat did not reach the target, the range has no end, so it is not drawn.
      auto range = range_of(*value, 1 / by.of.unit);
      if (range && !std::isfinite(range->second)) range.reset();
      const auto text = std::isfinite(value->high) ? spread_text(value, by.of.text)
                                                   : by.of.text(value->median) + ", not reached in every repeat";
      row.marks.push_back({.x = value->median / by.of.unit,
                           .y = 0,
                           .x_range = range,
                           .y_range = std::nullopt,
                           .text = what.variants[i].label + ": " + text});
      csv += csv_field(what.variants[i].label) + "," + csv_number(value->median) + "," + csv_number(value->low) + "," +
             csv_number(value->high) + "," + std::to_string(value->count) + "\n";
    }
    linear.all.push_back(std::move(row));
  }
  auto logarithmic = linear;
  logarithmic.name += "-logarithmic";
  logarithmic.x.logarithmic = true;
  return pair_of(std::move(linear), std::move(logarithmic), std::move(csv));
}

figure_pair points(const comparison& what, const std::vector<summary>& of, const cost& by) {
  figure linear{.name = "cost-" + by.of.name,
                .title = "Final accuracy against cost",
                .kind = figure_kind::points,
                .x = {.title = by.of.title},
                .y = {.title = "final validation accuracy (%)"},
                .all = {}};
  auto logarithmic = linear;
  logarithmic.name += "-logarithmic";
  logarithmic.x.logarithmic = logarithmic.y.logarithmic = true;
  logarithmic.title = "Final errors against cost";
  logarithmic.y.title = "1 − final validation accuracy (%)";
  auto csv = "variant," + by.of.name + ",lowest,highest,final_accuracy,lowest_accuracy,highest_accuracy,repeats\n";
  for (std::size_t i = 0; i < of.size(); ++i) {
    const auto& label = what.variants[i].label;
    series marker{.name = label, .style = i, .marks = {}}, inverse = marker;
    const auto x = by.value(of[i]);
    if (const auto& y = of[i].final_accuracy; x && y) {
      marker.marks.push_back(
          {.x = x->median / by.of.unit,
           .y = 100 * y->median,
           .x_range = range_of(*x, 1 / by.of.unit),
           .y_range = range_of(*y, 100),
           .text = label + ": " + spread_text(y, percent_text) + " for " + spread_text(x, by.of.text)});
      inverse.marks = marker.marks;
      inverse.marks.back().y = 100 * (1 - y->median);
      inverse.marks.back().y_range = range_of(errors_of(*y), 100);
      csv += csv_field(label);
      for (const auto value : {x->median, x->low, x->high, y->median, y->low, y->high}) csv += "," + csv_number(value);
      csv += "," + std::to_string(y->count) + "\n";
    }
    linear.all.push_back(std::move(marker));
    logarithmic.all.push_back(std::move(inverse));
  }
  return pair_of(std::move(linear), std::move(logarithmic), std::move(csv));
}

}  // namespace

figure form_of(const figure_pair& of, bool logarithmic_x, bool logarithmic_y) {
  if (of.linear.kind == figure_kind::rows) return logarithmic_x ? of.logarithmic : of.linear;
  auto form = logarithmic_y ? of.logarithmic : of.linear;
  if (logarithmic_x != logarithmic_y)
    form.name = of.linear.name + (logarithmic_x ? "-logarithmic-x" : "-logarithmic-y");
  form.x.logarithmic = logarithmic_x;
  return form;
}

std::vector<figure_pair> curve_figures(const comparison& what, const std::vector<summary>& of) {
  const get_value seconds = [](const curve_point& at) { return std::optional(at.seconds); };
  const get_value bytes = [](const curve_point& at) { return std::optional(at.bytes); };
  const get_value samples = [](const curve_point& at) { return at.samples; };
  const std::vector<std::pair<axis_quantity, get_value>> horizontal{{time_of(what, largest_of(of, seconds)), seconds},
                                                                    {bytes_of(largest_of(of, bytes)), bytes},
                                                                    {samples_of(largest_of(of, samples)), samples}};
  std::vector<figure_pair> figures;
  for (const bool accuracy : {true, false})
    for (const auto& [shown, x] : horizontal)
      figures.push_back(curves(what, of,
                               {.of_x = shown,
                                .x = x,
                                .y = [=](const curve_point& at) { return accuracy ? at.accuracy : at.loss; },
                                .accuracy = accuracy}));
  return figures;
}

std::vector<figure_pair> target_figures(const comparison& what, const std::vector<summary>& of) {
  if (!what.target) return {};
  const auto costs = costs_of(what, of, true);
  const auto goal = human_number(100 * *what.target) + " %";
  return {rows(what, of, costs[0], "Time to " + goal), rows(what, of, costs[1], "Bytes to " + goal)};
}

std::vector<figure_pair> cost_figures(const comparison& what, const std::vector<summary>& of) {
  std::vector<figure_pair> figures;
  for (const auto& by : costs_of(what, of, false)) figures.push_back(points(what, of, by));
  return figures;
}

}  // namespace troupe::comparing
