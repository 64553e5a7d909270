#include "troupe/tools/timeline/picture.hpp"

#include "troupe/runtime/support/units.hpp"
#include "troupe/runtime/support/xml.hpp"
#include "troupe/tools/drawing/drawing_mark.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <set>
#include <utility>

namespace troupe::timeline {

namespace {

constexpr double page_width = 860, margin = 16, top = 64, row_height = 40, box_height = 24;
constexpr double narrowest_box = 2, letter_width = 7, title_letter_width = 8.5;

constexpr auto* style = R"(
text { font: 13px Helvetica, Arial, sans-serif; fill: #57606a }
.page { fill: #ffffff } .title { font-size: 15px; font-weight: bold; fill: #1f2933 } .name { fill: #1f2933 }
.computes { fill: #e7f0fa; stroke: #2b6cb0 }
.number { fill: #1a365d; font-weight: bold; stroke: #e7f0fa; stroke-width: 4; paint-order: stroke }
.waits { fill: url(#waiting); stroke: #b4bcc6 } .hatch { stroke: #b4bcc6 } .ground { fill: #ffffff }
.folds { fill: #57606a; stroke: #57606a } .grid { stroke: #e3e7ec }
.contribution { stroke: #c05621 } .head-contribution { fill: #c05621 }
.partial { stroke: #7c3aed; stroke-dasharray: 7 3 } .head-partial { fill: #7c3aed }
.result { stroke: #1f6f64 } .head-result { fill: #1f6f64 }
@media (prefers-color-scheme: dark) {
text { fill: #9da7b3 } .page, .ground { fill: #0d1117 } .title, .name { fill: #e6edf3 }
.computes { fill: #16304f; stroke: #6cb0f5 } .number { fill: #dbeafe; stroke: #16304f }
.waits { stroke: #4b5563 } .hatch { stroke: #4b5563 } .folds { fill: #9da7b3; stroke: #9da7b3 } .grid { stroke: #21262d }
.contribution { stroke: #f0955c } .head-contribution { fill: #f0955c }
.partial { stroke: #b794f6 } .head-partial { fill: #b794f6 }
.result { stroke: #56c2b2 } .head-result { fill: #56c2b2 }
}
)";

constexpr std::array stages{stage::contribution, stage::partial, stage::result};

const char* class_of(activity what) {
  return what == activity::computes ? "computes" : what == activity::waits ? "waits" : "folds";
}

std::string one_decimal(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f", value);
  return text.data();
}

double milliseconds_of(time value) {
  return std::chrono::duration<double, std::milli>(value).count();
}

/// Returns an interval of 1, 2 or 5 times a power of ten that fits four to ten times into `whole`.
double tick_of(double whole) {
  const auto power = std::pow(10, std::floor(std::log10(std::max(whole, 1e-6) / 4)));
  for (const double step : {5.0, 2.0})
    if (whole / (step * power) >= 4) return step * power;
  return power;
}

class drawing {
 public:
  drawing(const plan& plan, const timeline& shown) : plan_(plan), shown_(shown) {
    std::size_t longest = 0;
    for (const auto& row : shown.rows) longest = std::max(longest, row.name.size());
    left_ = margin + 16 + letter_width * static_cast<double>(longest);
    const auto whole = std::max(1e-6, milliseconds_of(shown.end - shown.begin));
    scale_ = (page_width - left_ - margin) / whole;
    bottom_ = top + row_height * static_cast<double>(shown.rows.size());
  }

  std::string draw(const std::string& title, const std::string& notes) && {
    const auto height = one_decimal(bottom_ + 62), width = one_decimal(page_width);
    add("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + width + " " + height + "\" width=\"" + width +
        "\" height=\"" + height + "\" role=\"img\">");
    add(std::string("<!-- ") + drawing_mark + " -->");
    add("<title>" + xml::escaped(title) + "</title>");
    add(std::string("<style>") + style + "</style>");
    add_definitions();
    add("<rect width=\"" + width + "\" height=\"" + height + "\" rx=\"8\" class=\"page\"/>");
    add_line_of_text(26, title, "title", title_letter_width);
    add_line_of_text(46, notes, "notes", letter_width);
    add_axis();
    for (std::size_t i = 0; i < shown_.rows.size(); ++i) add_row(i);
    for (const auto& delivered : shown_.messages) add_message(delivered);
    text_ += numbers_;
    add_legend();
    add("</svg>");
    return std::move(text_);
  }

 private:
  void add(const std::string& line) { text_ += line + "\n"; }

  void add_text(double x, double y, const std::string& words, const std::string& kind,
                const std::string& anchor = "start") {
    add("<text x=\"" + one_decimal(x) + "\" y=\"" + one_decimal(y) + "\" class=\"" + kind + "\" text-anchor=\"" +
        anchor + "\">" + xml::escaped(words) + "</text>");
  }

  /// Adds a line over the whole page, which is compressed if it would be longer.
  void add_line_of_text(double y, const std::string& words, const std::string& kind, double width) {
    const auto most = page_width - 2 * margin;
    const auto is_long = width * static_cast<double>(words.size()) > most;
    add("<text x=\"" + one_decimal(margin) + "\" y=\"" + one_decimal(y) + "\" class=\"" + kind + "\"" +
        (is_long ? " textLength=\"" + one_decimal(most) + "\" lengthAdjust=\"spacingAndGlyphs\"" : "") + ">" +
        xml::escaped(words) + "</text>");
  }

  void add_definitions() {
    add("<defs><pattern id=\"waiting\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\"><rect width=\"6\" "
        "height=\"6\" class=\"ground\"/><path d=\"M0,6 L6,0\" class=\"hatch\"/></pattern>");
    for (const auto at : stages)
      add(std::string("<marker id=\"to-") + name_of(at) +
          "\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path "
          "d=\"M0,1 L8,4 L0,7 z\" class=\"head-" +
          name_of(at) + "\"/></marker>");
    add("</defs>");
  }

  double across(time at) const { return left_ + scale_ * milliseconds_of(at - shown_.begin); }

  static double middle_of(std::size_t row) { return top + row_height * (static_cast<double>(row) + 0.5); }

  void add_axis() {
    const auto whole = milliseconds_of(shown_.end - shown_.begin);
    const auto tick = tick_of(whole);
    const auto label_of = [&](double milliseconds) {
      return tick < 1000 ? human_number(milliseconds) + " ms" : human_number(milliseconds / 1000) + " s";
    };
    for (int i = 0; i * tick <= whole * (1 + 1e-9); ++i) {
      const auto x = left_ + scale_ * i * tick;
      add("<path d=\"M" + one_decimal(x) + "," + one_decimal(top) + " V" + one_decimal(bottom_) +
          "\" class=\"grid\"/>");
      const auto label = label_of(i * tick);
      const auto rightmost = page_width - margin / 2 - letter_width * static_cast<double>(label.size()) / 2;
      add_text(std::min(x, rightmost), bottom_ + 17, label, "time", "middle");
    }
  }

  void add_row(std::size_t index) {
    const auto& row = shown_.rows[index];
    const auto middle = middle_of(index);
    add_text(margin, middle + 4.5, row.name, "name");
    if (row.is_memory)
      add("<rect x=\"" + one_decimal(left_) + "\" y=\"" + one_decimal(middle - 6) + "\" width=\"" +
          one_decimal(page_width - left_ - margin) + "\" height=\"12\" rx=\"3\" class=\"folds\"/>");
    for (const auto& box : row.boxes) {
      const auto from = across(box.begin);
      const auto width = std::max(across(box.end) - from, narrowest_box);
      // A wait that is too short to be seen is left out. A short fold is drawn, because messages end and begin there.
      if (box.what == activity::waits && across(box.end) - from < narrowest_box) continue;
      add("<rect x=\"" + one_decimal(from) + "\" y=\"" + one_decimal(middle - box_height / 2) + "\" width=\"" +
          one_decimal(width) + "\" height=\"" + one_decimal(box_height) + "\" rx=\"3\" class=\"" + class_of(box.what) +
          "\"/>");
      if (box.what != activity::computes) continue;
      const auto number = std::to_string(box.step);
      if (width >= letter_width * static_cast<double>(number.size() + 1))
        numbers_ += "<text x=\"" + one_decimal(from + width / 2) + "\" y=\"" + one_decimal(middle + 4.5) +
                    "\" class=\"number\" text-anchor=\"middle\">" + number + "</text>\n";
      for (std::size_t other = 0; other < shown_.rows.size(); ++other)
        if (shown_.rows[other].is_memory)
          add_arrow(index, box.end, other, box.end, stage::contribution,
                    row.name + " adds step " + std::to_string(box.step) + " to the memory");
    }
  }

  /// Adds an arrow between the edges of the boxes of two rows.
  void add_arrow(std::size_t from, time begin, std::size_t to, time end, stage at, const std::string& words) {
    const auto down = to > from ? 1.0 : -1.0;
    add("<line x1=\"" + one_decimal(across(begin)) + "\" y1=\"" + one_decimal(middle_of(from) + down * box_height / 2) +
        "\" x2=\"" + one_decimal(across(end)) + "\" y2=\"" +
        one_decimal(middle_of(to) - down * (shown_.rows[to].is_memory ? 7 : box_height / 2 + 1)) + "\" class=\"" +
        name_of(at) + "\" marker-end=\"url(#to-" + name_of(at) + ")\"><title>" + xml::escaped(words) +
        "</title></line>");
  }

  void add_message(const message& delivered) {
    add_arrow(delivered.from, delivered.sent, delivered.to, delivered.received, delivered.at,
              shown_.rows[delivered.from].name + " → " + shown_.rows[delivered.to].name + ": " +
                  cargo_of(plan_, delivered) + ", " + human_bytes(delivered.bytes) + ", step " +
                  std::to_string(delivered.step));
  }

  void add_legend() {
    std::set<activity> done;
    bool has_memory = false;
    for (const auto& row : shown_.rows) {
      has_memory = has_memory || row.is_memory;
      for (const auto& box : row.boxes) done.insert(box.what);
    }
    std::set<stage> sent;
    for (const auto& delivered : shown_.messages) sent.insert(delivered.at);
    double x = margin;
    const auto y = bottom_ + 46;
    const auto add_words = [&](const std::string& words) {
      add_text(x + 29, y + 1, words, "key");
      x += 29 + letter_width * static_cast<double>(words.size()) + 12;
    };
    const std::array<std::pair<activity, const char*>, 3> activities{
        {{activity::computes, "computes a step"}, {activity::waits, "waits"}, {activity::folds, "adds or applies"}}};
    for (const auto& [kind, words] : activities) {
      if (!done.contains(kind)) continue;
      add("<rect x=\"" + one_decimal(x) + "\" y=\"" + one_decimal(y - 10) +
          "\" width=\"22\" height=\"13\" rx=\"3\" class=\"" + class_of(kind) + "\"/>");
      add_words(words);
    }
    const auto add_line = [&](stage at, const std::string& words) {
      add("<line x1=\"" + one_decimal(x) + "\" y1=\"" + one_decimal(y - 3) + "\" x2=\"" + one_decimal(x + 22) +
          "\" y2=\"" + one_decimal(y - 3) + "\" class=\"" + name_of(at) + "\" marker-end=\"url(#to-" + name_of(at) +
          ")\"/>");
      add_words(words);
    };
    if (has_memory) add_line(stage::contribution, "adds its step to the memory");
    if (sent.contains(stage::contribution)) add_line(stage::contribution, "values of one worker");
    if (sent.contains(stage::partial)) add_line(stage::partial, "partial sum");
    if (sent.contains(stage::result)) add_line(stage::result, "result");
  }

  const plan& plan_;
  const timeline& shown_;
  double left_{0}, scale_{1}, bottom_{0};
  std::string text_{}, numbers_{};
};

}  // namespace

std::string to_svg(const plan& plan, const timeline& shown, const std::string& title, const std::string& notes) {
  return drawing{plan, shown}.draw(title, notes);
}

}  // namespace troupe::timeline
