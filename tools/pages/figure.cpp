#include "troupe/tools/pages/figure.hpp"

#include "troupe/files/json.hpp"
#include "troupe/runtime/support/csv.hpp"
#include "troupe/runtime/support/units.hpp"
#include "troupe/tools/pages/html.hpp"
#include "troupe/tools/pages/sources.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numbers>

namespace troupe::pages {

namespace {

// Sizes in pixels. At a width of 350, as on a phone, the text is still 10 pixels high.
constexpr double width = 420, right = 12, top = 34, plot_height = 215, axis_height = 44;
constexpr double row_height = 34, legend_row = 18, letter = 6.4, digit = 7.7, y_title = 13, label_gap = 6;
constexpr std::size_t colours = 8, dashes = 4, markers = 6;

std::string number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f", value == 0 ? 0.0 : value);
  return text.data();
}

/// Returns the classes that determine colour and dashes of a style.
std::string classes(std::size_t style) {
  return "c" + std::to_string(style % colours) + " d" + std::to_string((style + style / colours) % dashes);
}

std::string text_at(double x, double y, const std::string& attributes, const std::string& text) {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" " + attributes + ">" + escaped(text) + "</text>\n";
}

std::string line_of(double x1, double y1, double x2, double y2, const std::string& name) {
  return "<line class=\"" + name + "\" x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) +
         "\" y2=\"" + number(y2) + "\"/>\n";
}

/// Returns the marker of a style: a regular polygon or a circle around a point.
std::string marker_at(double x, double y, std::size_t style) {
  struct shape {
    int corners;
    double turn, radius;
  };
  constexpr double quarter = std::numbers::pi / 2;
  constexpr std::array<shape, markers> shapes{
      {{0, 0, 3.6}, {4, quarter / 2, 4.6}, {3, -quarter, 4.8}, {4, 0, 4.8}, {3, quarter, 4.8}, {5, -quarter, 4.6}}};
  const auto& [corners, turn, radius] = shapes.at((style + style / colours) % markers);
  const auto name = "class=\"marker c" + std::to_string(style % colours) + "\"";
  if (corners == 0)
    return "<circle " + name + " cx=\"" + number(x) + "\" cy=\"" + number(y) + "\" r=\"" + number(radius) + "\"/>\n";
  std::string points;
  for (int i = 0; i < corners; ++i) {
    const auto angle = turn + 2 * std::numbers::pi * i / corners;
    points += number(x + radius * std::cos(angle)) + "," + number(y + radius * std::sin(angle)) + " ";
  }
  points.pop_back();
  return "<polygon " + name + " points=\"" + points + "\"/>\n";
}

/// Returns whether an axis has a place for a value. Beyond these limits, its ends and marks could not be computed.
bool can_be_shown(double value, bool logarithmic) {
  constexpr double smallest = 1e-200, largest = 1e200;
  return std::abs(value) <= largest && (!logarithmic || value >= smallest);
}

/// Maps values of an axis to positions in the drawing.
class scale {
 public:
  scale(const axis& of, double low, double high, double from, double to)
      : logarithmic_(of.logarithmic), from_(from), to_(to) {
    const auto room = logarithmic_ ? 0.03 * (std::log(high) - std::log(low)) : 0.03 * (high - low);
    if (logarithmic_) {
      low_ = low / std::exp(std::max(room, 0.05));
      high_ = high * std::exp(std::max(room, 0.05));
    } else {
      const auto least = std::max({room, 1e-9 * std::abs(high), 1e-12});
      low_ = low == 0 ? 0 : low - least;
      high_ = high + least;
    }
  }

  double at(double value) const {
    const auto share = logarithmic_ ? (std::log(value) - std::log(low_)) / (std::log(high_) - std::log(low_))
                                    : (value - low_) / (high_ - low_);
    return from_ + share * (to_ - from_);
  }

  bool has(double value) const { return can_be_shown(value, logarithmic_); }
  std::vector<double> marks(int count) const { return ticks(low_, high_, logarithmic_, count); }
  double low() const { return low_; }

 private:
  bool logarithmic_;
  double low_{0}, high_{1}, from_, to_;
};

/// The smallest and the largest value that an axis shows.
struct extent {
  double low{std::numeric_limits<double>::infinity()}, high{-std::numeric_limits<double>::infinity()};
  bool logarithmic{false};
  void add(double value) {
    if (!can_be_shown(value, logarithmic)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  void add(double value, const std::optional<std::pair<double, double>>& range) {
    add(value);
    if (!range) return;
    add(range->first);
    add(range->second);
  }
  /// Returns whether there is anything to show. Makes sure that the two values differ.
  bool settle() {
    if (low > high) return false;
    if (low == high) {
      const auto room = low == 0 ? 1 : 0.1 * std::abs(low);
      low -= low == 0 ? 0 : room;
      high += room;
    }
    return true;
  }
};

class drawing {
 public:
  explicit drawing(const figure& what)
      : what_(what),
        height_(what.kind == figure_kind::rows ? row_height * static_cast<double>(what.all.size()) + 6 : plot_height) {}

  std::string text() {
    extent xs{.logarithmic = what_.x.logarithmic}, ys{.logarithmic = what_.y.logarithmic};
    if (!what_.x.logarithmic && what_.kind != figure_kind::points) xs.add(0);
    if (what_.kind == figure_kind::bars) ys.add(0);
    for (const auto& plotted : what_.all)
      for (const auto& at : plotted.marks) {
        xs.add(at.x, what_.kind == figure_kind::bars ? std::pair(at.x - 0.5, at.x + 0.5) : at.x_range);
        ys.add(at.y, at.y_range);
      }
    if (what_.kind == figure_kind::rows) ys = {0, 1};
    has_points_ = xs.settle() && ys.settle() && what_.has_values();
    if (!has_points_) xs = ys = {1, 10};
    const scale y(what_.y, ys.low, ys.high, top + height_, top);
    if (what_.kind != figure_kind::rows) make_room_for_labels(y);
    offer_logarithmic_y();
    const scale x(what_.x, xs.low, xs.high, left_, width - right);
    offer_other_x();
    add(text_at(left_, 18, "class=\"title\"", what_.title));
    add_axes(x, y);
    if (!has_points_) add(text_at(width / 2, top + height_ / 2, "class=\"tick\" text-anchor=\"middle\"", "no values"));
    for (std::size_t i = 0; has_points_ && i < what_.all.size(); ++i) add_series(what_.all[i], i, x, y);
    if (what_.kind != figure_kind::rows && what_.kind != figure_kind::bars) add_legend();
    return whole();
  }

 private:
  /// Moves the y axis to the right, so that the labels of its marks fit between its title and the axis.
  void make_room_for_labels(const scale& y) {
    std::size_t longest = 4;
    for (const auto value : y.marks(6)) longest = std::max(longest, human_number(value).size());
    left_ = std::max(left_, y_title + 5 + digit * static_cast<double>(longest) + label_gap);
  }

  /// An axis that readers can choose.
  struct offered {
    axis of;
    scale where;
    std::size_t index{0};  ///< Index in mark::other_x.
  };

  void offer_logarithmic_y() {
    if (!what_.offers_logarithmic_y || !has_points_) return;
    extent values{.logarithmic = true};
    for (const auto& plotted : what_.all)
      for (const auto& at : plotted.marks) values.add(at.y, at.y_range);
    if (!values.settle()) return;
    auto logarithmic_y = what_.y;
    logarithmic_y.logarithmic = true;
    log_y_ = scale(logarithmic_y, values.low, values.high, top + height_, top);
    make_room_for_labels(*log_y_);
  }

  void offer_other_x() {
    for (std::size_t i = 0; has_points_ && i < what_.other_x.size(); ++i) {
      extent values;
      values.add(0);
      for (const auto& plotted : what_.all)
        for (const auto& at : plotted.marks) values.add(at.other_x.at(i));
      const auto has_place = [&](const mark& at) { return std::isfinite(at.other_x[i]); };
      const bool has_any = std::any_of(what_.all.begin(), what_.all.end(), [&](const series& plotted) {
        return std::any_of(plotted.marks.begin(), plotted.marks.end(), has_place);
      });
      if (has_any && values.settle())
        other_x_.push_back(
            {what_.other_x[i], scale(what_.other_x[i], values.low, values.high, left_, width - right), i});
    }
  }

  double bottom() const { return top + height_; }
  void add(const std::string& element) { body_ += element; }

  bool offers_axes() const { return log_y_.has_value() || !other_x_.empty(); }

  void add_axes(const scale& x, const scale& y) {
    const auto open = [this](const std::string& attributes, bool is_shown) {
      if (offers_axes()) add("<g class=\"axis" + std::string(is_shown ? "" : " other") + "\" " + attributes + ">\n");
    };
    const auto close = [this] {
      if (offers_axes()) add("</g>\n");
    };
    const auto attributes_of = [](const axis& shown) {
      return "data-x=\"" + escaped(shown.column) + "\" data-title=\"" + escaped(shown.title) + "\"";
    };
    open(attributes_of(what_.x), true);
    add_x_axis(what_.x, x);
    close();
    for (const auto& [other, where, index] : other_x_) {
      open(attributes_of(other), false);
      add_x_axis(other, where);
      close();
    }
    if (what_.kind == figure_kind::rows) return;
    open("data-y=\"linear\"", true);
    add_y_axis(what_.y, y);
    close();
    if (!log_y_) return;
    auto logarithmic_y = what_.y;
    logarithmic_y.logarithmic = true;
    open("data-y=\"logarithmic\"", false);
    add_y_axis(logarithmic_y, *log_y_);
    close();
  }

  void add_x_axis(const axis& of, const scale& x) {
    for (const auto value : x.marks(6)) {
      add(line_of(x.at(value), top, x.at(value), bottom(), "grid"));
      add(text_at(x.at(value), bottom() + 16, "class=\"tick\" text-anchor=\"middle\"", human_number(value)));
    }
    add(text_at((left_ + width - right) / 2, bottom() + 34, "class=\"name\" text-anchor=\"middle\"",
                of.title + (of.logarithmic ? ", log" : "")));
  }

  void add_y_axis(const axis& of, const scale& y) {
    for (const auto value : y.marks(6)) {
      add(line_of(left_, y.at(value), width - right, y.at(value), "grid"));
      add(text_at(left_ - label_gap, y.at(value) + 4, "class=\"tick\" text-anchor=\"end\"", human_number(value)));
    }
    const auto middle = number(top + height_ / 2);
    add(text_at(
        y_title, top + height_ / 2,
        "class=\"name\" text-anchor=\"middle\" transform=\"rotate(-90 " + number(y_title) + " " + middle + ")\"",
        of.title + (of.logarithmic ? ", log" : "")));
  }

  /// Returns where the marks of a curve are on each axis that can be chosen, for the script of the page. A mark without
  /// a place on an axis is null.
  std::string places_of(const std::vector<mark>& marks, const scale& x, const scale& y) const {
    using json = files::json;
    const auto listed = [&](const scale& on, const auto& value) {
      auto list = json::array();
      for (const auto& at : marks) {
        const std::optional<double> coordinate = value(at);
        list.push_back(coordinate && on.has(*coordinate) ? json(std::round(10 * on.at(*coordinate)) / 10)
                                                         : json(nullptr));
      }
      return list;
    };
    json xs, ys;
    xs[what_.x.column] = listed(x, [](const mark& at) { return std::optional(at.x); });
    for (const auto& other : other_x_)
      xs[other.of.column] = listed(other.where, [&](const mark& at) {
        const auto value = at.other_x.at(other.index);
        return std::isfinite(value) ? std::optional(value) : std::nullopt;
      });
    const auto has_range = [](const mark& at) { return at.y_range.has_value(); };
    const bool has_band = std::any_of(marks.begin(), marks.end(), has_range);
    const auto add_y = [&](const char* name, const scale& on) {
      ys[name]["middle"] = listed(on, [](const mark& at) { return std::optional(at.y); });
      if (!has_band) return;
      ys[name]["high"] =
          listed(on, [](const mark& at) { return std::optional(at.y_range ? at.y_range->second : at.y); });
      ys[name]["low"] = listed(on, [&](const mark& at) {
        const auto low = at.y_range ? at.y_range->first : at.y;
        return std::optional(on.has(low) ? low : on.low());
      });
    };
    add_y("linear", y);
    if (log_y_) add_y("logarithmic", *log_y_);
    return files::json_text(json{{"x", xs}, {"y", ys}});
  }

  void add_series(const series& plotted, std::size_t index, const scale& x, const scale& y) {
    std::vector<mark> shown;
    for (const auto& at : plotted.marks)
      if (x.has(at.x) && (what_.kind == figure_kind::rows || y.has(at.y))) shown.push_back(at);
    const auto places = offers_axes() ? " data-places=\"" + escaped(places_of(shown, x, y)) + "\"" : std::string();
    add("<g data-series=\"" + std::to_string(plotted.style) + "\"" + places + ">\n");
    if (what_.kind == figure_kind::curves)
      add_curve(plotted, shown, x, y);
    else if (what_.kind == figure_kind::points)
      add_points(plotted, shown, x, y);
    else if (what_.kind == figure_kind::bars)
      add_bars(plotted, shown, x, y);
    else
      add_row(plotted, index, shown, x);
    add("</g>\n");
  }

  /// Adds an invisible line through the marks, which carries their positions and texts.
  void add_targets(const std::vector<std::pair<double, double>>& places, const std::vector<mark>& marks,
                   const std::string& name) {
    std::string line;
    auto points = files::json::array();
    for (std::size_t i = 0; i < places.size(); ++i) {
      const auto [x, y] = places[i];
      line += number(x) + "," + number(y) + " ";
      points.push_back({std::round(10 * x) / 10, std::round(10 * y) / 10, marks[i].text});
    }
    if (!line.empty()) line.pop_back();
    add("<polyline class=\"" + name + "\" points=\"" + line + "\" data-points=\"" + escaped(files::json_text(points)) +
        "\"/>\n");
  }

  void add_curve(const series& plotted, const std::vector<mark>& marks, const scale& x, const scale& y) {
    std::vector<std::pair<double, double>> places;
    std::string upper, lower;
    for (const auto& at : marks) {
      places.emplace_back(x.at(at.x), y.at(at.y));
      const auto [low, high] = at.y_range.value_or(std::pair(at.y, at.y));
      const auto place = number(x.at(at.x)) + ",";
      upper += place + number(y.at(high)) + " ";
      lower = place + number(y.at(y.has(low) ? low : y.low())) + " " + lower;
    }
    const auto has_range = [](const mark& at) { return at.y_range.has_value(); };
    if (std::any_of(marks.begin(), marks.end(), has_range))
      add("<polygon class=\"band c" + std::to_string(plotted.style % colours) + "\" points=\"" + upper + lower +
          "\"/>\n");
    add_targets(places, marks, "line " + classes(plotted.style));
    constexpr std::size_t most_markers = 8;
    const auto every = std::max<std::size_t>(1, (places.size() + most_markers - 1) / most_markers);
    for (auto i = std::min(plotted.style % every, places.size()); i < places.size(); i += every)
      add("<g class=\"at\" data-at=\"" + std::to_string(i) + "\">" +
          marker_at(places[i].first, places[i].second, plotted.style) + "</g>\n");
  }

  void add_points(const series& plotted, const std::vector<mark>& marks, const scale& x, const scale& y) {
    const auto colour = "range c" + std::to_string(plotted.style % colours);
    std::vector<std::pair<double, double>> places;
    for (const auto& at : marks) {
      const auto px = x.at(at.x), py = y.at(at.y);
      places.emplace_back(px, py);
      if (at.x_range && x.has(at.x_range->first))
        add(line_of(x.at(at.x_range->first), py, x.at(at.x_range->second), py, colour));
      if (at.y_range && y.has(at.y_range->first))
        add(line_of(px, y.at(at.y_range->first), px, y.at(at.y_range->second), colour));
      add(marker_at(px, py, plotted.style));
    }
    add_targets(places, marks, "targets");
  }

  void add_bars(const series& plotted, const std::vector<mark>& marks, const scale& x, const scale& y) {
    const auto name = "band bar c" + std::to_string(plotted.style % colours);
    const auto width_of_one = std::max(1.0, 0.7 * std::abs(x.at(1) - x.at(0)));
    std::vector<std::pair<double, double>> places;
    for (const auto& at : marks) {
      places.emplace_back(x.at(at.x), y.at(at.y));
      add("<rect class=\"" + name + "\" x=\"" + number(x.at(at.x) - width_of_one / 2) + "\" y=\"" + number(y.at(at.y)) +
          "\" width=\"" + number(width_of_one) + "\" height=\"" + number(y.at(0) - y.at(at.y)) + "\"/>\n");
    }
    add_targets(places, marks, "targets");
  }

  void add_row(const series& plotted, std::size_t index, const std::vector<mark>& marks, const scale& x) {
    const auto y = top + row_height * (static_cast<double>(index) + 0.75);
    const auto* why = plotted.marks.empty() ? ": not reached in most runs"
                      : marks.empty()       ? ": a value that a logarithmic axis cannot show"
                                            : "";
    const auto name = plotted.name + why;
    add(text_at(left_ + 2, y - 9, "class=\"row\"", name));
    const auto colour = "range c" + std::to_string(plotted.style % colours);
    std::vector<std::pair<double, double>> places;
    for (const auto& at : marks) {
      places.emplace_back(x.at(at.x), y + 1);
      if (at.x_range) add(line_of(x.at(at.x_range->first), y + 1, x.at(at.x_range->second), y + 1, colour));
      add(marker_at(x.at(at.x), y + 1, plotted.style));
    }
    add_targets(places, marks, "targets");
  }

  void add_legend() {
    double x = left_, y = bottom() + axis_height + 10;
    for (const auto& plotted : what_.all) {
      const auto length = 34 + letter * static_cast<double>(plotted.name.size()) + 12;
      if (x > left_ && x + length > width) {
        x = left_;
        y += legend_row;
      }
      add("<g class=\"key\" data-series=\"" + std::to_string(plotted.style) + "\">\n");
      if (what_.kind == figure_kind::curves) add(line_of(x, y - 4, x + 26, y - 4, "line " + classes(plotted.style)));
      add(marker_at(x + 13, y - 4, plotted.style));
      add(text_at(x + 32, y, "class=\"tick\"", plotted.name));
      add("</g>\n");
      x += length;
    }
    legend_ = y - bottom() - axis_height + 6;
  }

  std::string whole() const {
    const auto total = number(bottom() + axis_height + legend_);
    return "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"figure\" role=\"img\" viewBox=\"0 0 " + number(width) +
           " " + total + "\" aria-label=\"" + escaped(what_.title + " against " + what_.x.title) + "\">\n" + body_ +
           "</svg>\n";
  }

  const figure& what_;
  double height_, left_{right}, legend_{0};  ///< Rows have no axis to the left.
  std::optional<scale> log_y_{};
  std::vector<offered> other_x_{};
  bool has_points_{false};
  std::string body_;
};

/// Returns the largest of 1, 2, 5, 10, … times a power of ten that is at most `value`.
double round_step(double value) {
  const auto power = std::pow(10.0, std::floor(std::log10(value)));
  for (const double factor : {5.0, 2.0})
    if (factor * power <= value) return factor * power;
  return power;
}

}  // namespace

std::vector<double> ticks(double low, double high, bool logarithmic, int count) {
  std::vector<double> positions;
  if (logarithmic) {
    for (const auto& factors : {std::vector<double>{1}, {1, 3}, {1, 2, 5}, {1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9}}) {
      positions.clear();
      for (auto power = std::floor(std::log10(low)); power <= std::log10(high); ++power)
        for (const auto factor : factors)
          if (const auto at = factor * std::pow(10, power); at >= low && at <= high) positions.push_back(at);
      if (positions.size() >= 3) return positions;
    }
    positions.clear();
  }
  const auto step = round_step((high - low) / count * 1.5);
  for (auto i = std::ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; ++i) positions.push_back(i * step);
  for (auto& value : positions)
    if (std::abs(value) < 1e-9 * step) value = 0;
  return positions;
}

bool figure::has_values() const {
  return std::any_of(all.begin(), all.end(), [](const series& plotted) { return !plotted.marks.empty(); });
}

std::string draw(const figure& what) {
  return drawing(what).text();
}

std::string csv_of(const figure& what) {
  // Values on the axes have been divided by their units, so the last digits of a product would be noise.
  const auto field = [](double value) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.10g", value);
    return std::string(text.data());
  };
  auto text = "series," + what.x.column + "," + what.y.column + ",lowest,highest";
  for (const auto& other : what.other_x) text += "," + other.column;
  text += "\n";
  for (const auto& plotted : what.all)
    for (const auto& at : plotted.marks) {
      text += csv_field(plotted.name) + "," + field(at.x * what.x.unit) + "," + field(at.y * what.y.unit) + ",";
      if (at.y_range) text += field(at.y_range->first * what.y.unit);
      text += ",";
      if (at.y_range) text += field(at.y_range->second * what.y.unit);
      for (std::size_t i = 0; i < what.other_x.size(); ++i) {
        text += ",";
        if (std::isfinite(at.other_x.at(i))) text += field(at.other_x[i] * what.other_x[i].unit);
      }
      text += "\n";
    }
  return text;
}

std::string card_of(const std::string& name, const std::string& drawings) {
  return "<figure class=\"card\" data-figure=\"" + escaped(name) + "\">\n" + drawings +
         "\n<figcaption><button type=\"button\" data-save=\"svg\">SVG</button> "
         "<button type=\"button\" data-save=\"csv\">CSV</button></figcaption>\n</figure>\n";
}

std::string figure_style() {
  return std::string(sources::figure_css);
}

std::string standalone(const std::string& drawing) {
  const auto opened = drawing.find('>') + 1;
  return drawing.substr(0, opened) + "\n<style>\n" + figure_style() + "</style>" + drawing.substr(opened);
}

}  // namespace troupe::pages
