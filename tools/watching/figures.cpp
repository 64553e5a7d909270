#include "troupe/tools/watching/figures.hpp"

#include "troupe/runtime/support/units.hpp"
#include "troupe/tools/pages/axis_unit.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>

namespace troupe::watching {

namespace {

using pages::figure;
using pages::figure_kind;
using pages::mark;
using pages::series;

/// Maximum number of workers that have a curve each. For more workers, a band shows the range.
constexpr std::size_t drawn_max = 8;

// Styles of the series that appear in several figures, so that a click on the name of one hides it in all figures.
constexpr std::size_t style_of_all = 0, style_of_validation = 1, style_of_first_worker = 2;

using get_value = std::function<std::optional<double>(const record&)>;
using get_values = std::function<const std::vector<double>&(const record&)>;

/// The time axis that all figures share, and the other horizontal axes among which a reader of the page may choose.
struct time_axis {
  pages::axis_unit unit;
  pages::axis axis;
  std::vector<pages::axis> others;
  double steps_per_epoch, samples_per_step;

  time_axis(const run_facts& facts, const history_state& state)
      : unit(pages::unit_of_seconds(state.latest ? state.latest->seconds : 0)),
        axis{.title = std::string(facts.simulated ? "virtual time (" : "time (") + unit.name + ")",
             .column = "seconds",
             .unit = unit.size},
        steps_per_epoch(static_cast<double>(std::max<std::uint64_t>(facts.steps_per_epoch, 1))),
        samples_per_step(static_cast<double>(facts.samples_per_step)) {
    const auto steps = static_cast<double>(state.steps);
    const auto samples = pages::unit_of_samples(steps * samples_per_step);
    const auto bytes = pages::unit_of_bytes(state.latest ? static_cast<double>(state.latest->bytes_sent) : 0);
    const auto in_unit = [](const char* title, const pages::axis_unit& chosen) {
      return std::string(title) + (*chosen.name == 0 ? "" : " (" + std::string(chosen.name) + ")");
    };
    others = {{.title = "epochs", .column = "epochs"},
              {.title = "steps", .column = "steps"},
              {.title = in_unit("training samples", samples), .column = "samples", .unit = samples.size},
              {.title = in_unit("sent by all workers and servers", bytes), .column = "bytes_sent", .unit = bytes.size}};
  }

  double at(double seconds) const { return seconds / unit.size; }
  std::string text(double seconds) const { return human_number(at(seconds), 4) + " " + unit.name; }

  /// Returns the places on the other axes. Samples are those of full batches.
  std::vector<double> others_at(double steps, std::optional<double> bytes) const {
    const auto sent = bytes.value_or(std::numeric_limits<double>::quiet_NaN());
    return {steps / steps_per_epoch, steps, steps * samples_per_step / others[2].unit, sent / others[3].unit};
  }
};

/// A quantity on the y axis.
struct quantity {
  std::string name, title, axis;
  std::string column;  ///< Name of its column in a CSV file.
  bool percent{false};
  bool offers_logarithm{false};  ///< Whether its axis can be made logarithmic.

  double shown(double value) const { return percent ? 100 * value : value; }
  std::string text(double value) const { return human_number(shown(value), 4) + (percent ? " %" : ""); }
};

/// Draws the lines of one figure.
class curves {
 public:
  curves(const history_state& state, const time_axis& time, quantity what)
      : state_(state), time_(time), what_(std::move(what)) {
    made_ = {.name = what_.name,
             .title = what_.title,
             .kind = figure_kind::curves,
             .x = time.axis,
             .y = {.title = what_.axis, .column = what_.column, .unit = what_.percent ? 0.01 : 1},
             .all = {},
             .other_x = time.others,
             .offers_logarithmic_y = what_.offers_logarithm};
  }

  /// Adds one line, if it has values.
  void add(const std::string& name, std::size_t style, const get_value& value) {
    series line{.name = name, .style = style, .marks = {}};
    for (const auto& reported : state_.lines)
      if (const auto y = value(reported); y && std::isfinite(*y)) line.marks.push_back(mark_at(reported, name, *y));
    if (!line.marks.empty()) made_.all.push_back(std::move(line));
  }

  /// Adds a line for each worker, or one band for many.
  void add_workers(const get_values& values) {
    std::size_t workers = 0;
    for (const auto& reported : state_.lines) workers = std::max(workers, values(reported).size());
    if (workers > drawn_max) return add_range(values);
    for (std::size_t rank = 0; rank < workers; ++rank)
      add("worker " + std::to_string(rank), style_of_first_worker + rank, [&](const record& line) {
        const auto& by_rank = values(line);
        return rank < by_rank.size() ? std::optional(by_rank[rank]) : std::nullopt;
      });
  }

  figure take() { return std::move(made_); }

 private:
  mark mark_at(const record& line, const std::string& name, double y) const {
    mark result;
    result.x = time_.at(line.seconds);
    result.y = what_.shown(y);
    result.text = name + ": " + what_.text(y) + " after " + time_.text(line.seconds) + ", step " + grouped(line.step);
    result.other_x = time_.others_at(static_cast<double>(line.step), static_cast<double>(line.bytes_sent));
    return result;
  }

  void add_range(const get_values& values) {
    series line{.name = "median of the workers, and their range", .style = style_of_first_worker, .marks = {}};
    for (const auto& reported : state_.lines) {
      std::vector<double> sorted;
      for (const auto value : values(reported))
        if (std::isfinite(value)) sorted.push_back(value);
      if (sorted.empty()) continue;
      std::sort(sorted.begin(), sorted.end());
      line.marks.push_back(mark_at(reported, "median worker", sorted[sorted.size() / 2]));
      line.marks.back().y_range = std::pair(what_.shown(sorted.front()), what_.shown(sorted.back()));
      line.marks.back().text += " (workers: " + what_.text(sorted.front()) + " to " + what_.text(sorted.back()) + ")";
    }
    if (!line.marks.empty()) made_.all.push_back(std::move(line));
  }

  const history_state& state_;
  const time_axis& time_;
  quantity what_;
  figure made_;
};

figure losses(const history_state& state, const time_axis& time) {
  curves drawn(state, time,
               {.name = "loss", .title = "Loss", .axis = "loss", .column = "loss", .offers_logarithm = true});
  drawn.add("training", style_of_all, [](const record& line) { return line.train_loss; });
  drawn.add("validation", style_of_validation, [](const record& line) { return line.val_loss; });
  drawn.add_workers([](const record& line) -> const auto& { return line.train_loss_workers; });
  return drawn.take();
}

figure accuracies(const history_state& state, const time_axis& time) {
  curves drawn(
      state, time,
      {.name = "accuracy", .title = "Accuracy", .axis = "accuracy (%)", .column = "accuracy", .percent = true});
  drawn.add("training", style_of_all, [](const record& line) { return line.train_accuracy; });
  drawn.add("validation", style_of_validation, [](const record& line) { return line.val_accuracy; });
  drawn.add_workers([](const record& line) -> const auto& { return line.val_accuracy_workers; });
  return drawn.take();
}

/// Draws the speed from the progress over time or, without it, from the lines.
figure speed(const run_facts& facts, const history_state& state, const time_axis& time) {
  curves from_lines(
      state, time,
      {.name = "speed", .title = "Training speed", .axis = "samples per second", .column = "samples_per_second"});
  from_lines.add("all workers", style_of_all, [](const record& line) { return line.samples_per_second; });
  auto result = from_lines.take();
  if (state.progress.size() < 3) return result;
  series line{.name = "all workers", .style = style_of_all, .marks = {}};
  const auto& points = state.progress;
  for (std::size_t i = 1; i < points.size(); ++i) {
    const auto& last = points[i];
    const auto& first = points[i >= 2 ? i - 2 : 0];  // over two intervals, so that the curve is smooth
    const auto seconds = last.seconds - first.seconds;
    if (seconds <= 0) continue;
    const auto rate = static_cast<double>(facts.samples_per_step) * (last.steps - first.steps) / seconds;
    mark at;
    at.x = time.at(last.seconds);
    at.y = rate;
    at.text = human_number(rate, 4) + " samples per second at " + time.text(last.seconds);
    at.other_x = time.others_at(last.steps, std::nullopt);  // the bytes are known at the lines only
    line.marks.push_back(std::move(at));
  }
  result.all = {std::move(line)};
  return result;
}

figure distances(const history_state& state, const time_axis& time) {
  curves drawn(state, time,
               {.name = "consensus",
                .title = "Distance between the workers",
                .axis = "consensus distance",
                .column = "consensus_distance",
                .offers_logarithm = true});
  const auto mixes = std::any_of(state.lines.begin(), state.lines.end(),
                                 [](const record& line) { return line.consensus_distance_after.has_value(); });
  if (mixes)
    drawn.add("after mixing", 0, [](const record& line) { return line.consensus_distance_after; });
  else
    drawn.add("after the step", 0, [](const record& line) { return line.consensus_distance; });
  drawn.add("before mixing", 1, [](const record& line) { return line.consensus_distance_before; });
  return drawn.take();
}

figure staleness_over_time(const history_state& state, const time_axis& time) {
  curves drawn(state, time,
               {.name = "staleness",
                .title = "Staleness of the gradients",
                .axis = "updates between read and write",
                .column = "staleness"});
  drawn.add("mean", 0, [](const record& line) { return line.staleness_mean; });
  drawn.add("largest", 1, [](const record& line) { return line.staleness_max; });
  return drawn.take();
}

figure staleness_counts(const history_state& state) {
  figure result{.name = "staleness-counts",
                .title = "Gradients by staleness",
                .kind = figure_kind::bars,
                .x = {.title = "staleness", .column = "staleness"},
                .y = {.title = "gradients", .column = "gradients"},
                .all = {}};
  series bars{.name = "gradients", .style = 0, .marks = {}};
  for (std::size_t i = 0; i < state.staleness.size(); ++i) {
    mark at;
    at.x = static_cast<double>(i);
    at.y = static_cast<double>(state.staleness[i]);
    at.text = grouped(state.staleness[i]) + " gradients with staleness " + std::to_string(i);
    bars.marks.push_back(std::move(at));
  }
  result.all.push_back(std::move(bars));
  return result;
}

}  // namespace

std::vector<figure> figures_of(const run_facts& facts, const history_state& state) {
  const time_axis time(facts, state);
  std::vector<figure> figures;
  for (auto& drawn : {losses(state, time), accuracies(state, time), speed(facts, state, time), distances(state, time),
                      staleness_over_time(state, time)})
    if (drawn.has_values()) figures.push_back(drawn);
  if (!state.staleness.empty()) figures.push_back(staleness_counts(state));
  return figures;
}

}  // namespace troupe::watching
