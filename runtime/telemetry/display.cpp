#include "troupe/runtime/telemetry/display.hpp"

#include "troupe/runtime/support/terminal.hpp"
#include "troupe/runtime/support/units.hpp"
#include "troupe/runtime/telemetry/metrics.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <limits>
#include <optional>
#include <string_view>
#include <unistd.h>
#include <utility>

namespace troupe::telemetry {

namespace {

using std::chrono::duration;

std::string formatted(const char* format, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

/// "  loss 0.1834", "  val 97.31 %"; as many blanks if there is no value, so that columns stay aligned.
std::string loss_field(const std::optional<double>& loss) {
  return loss && std::isfinite(*loss) ? formatted(*loss < 10 ? "  loss %6.4f" : "  loss %6.4g", *loss)
                                      : std::string(13, ' ');
}
std::string accuracy_field(const std::optional<double>& accuracy) {
  return accuracy && std::isfinite(*accuracy) ? formatted("  val %5.2f %%", 100 * *accuracy) : std::string(13, ' ');
}
/// "  train 87.1 %", or nothing if it was not counted. Only finished lines show it, so it has no fixed column.
std::string train_field(const record& row) {
  const auto& accuracy = row.train_accuracy;
  return accuracy && std::isfinite(*accuracy) ? formatted("  train %4.1f %%", 100 * *accuracy) : std::string();
}
std::string rate_field(const run_shape& shape, const std::optional<double>& rate) {
  return rate && std::isfinite(*rate) ? formatted("  %5.0f ", *rate) + shape.sample + "/s" : std::string(13, ' ');
}

/// The training figures of a line. On a line that ends an epoch, they describe the whole epoch; on other lines, the
/// time since the previous record.
class training_figures {
 public:
  explicit training_figures(const run_shape& shape) : shape_(shape) {}

  /// Adds a record. All records must be added in order. An epoch in which the run was continued has no accuracy,
  /// because its first records are missing.
  void hear(const record& line) {
    if (line.event == "start" || line.event == "resume") {
      whole_ = line.step % per_epoch() == 0;
      step_ = line.step;
      seconds_ = line.train_seconds;
    }
    if ((line.event != "evaluation" && line.event != "epoch") || line.step <= step_) return;
    const auto steps = static_cast<double>(line.step - step_);  // all steps have the same number of samples
    const auto seconds = std::max(line.train_seconds - seconds_, 0.0);
    of_epoch_.steps += steps;
    of_epoch_.correct += steps * line.train_accuracy.value_or(std::numeric_limits<double>::quiet_NaN());
    if (line.samples_per_second) of_epoch_.seconds += seconds;
    of_epoch_.samples += seconds * line.samples_per_second.value_or(0);
    step_ = line.step;
    seconds_ = line.train_seconds;
  }

  /// Returns a record with the figures that are printed. Call it after hear() of the same record.
  record shown(record row) {
    if (row.event != "epoch") return row;
    const auto sums = std::exchange(of_epoch_, {});
    const auto whole = std::exchange(whole_, true);
    if (row.epoch_train_loss) row.train_loss = row.epoch_train_loss;
    if (!whole)
      row.train_accuracy = {};
    else if (sums.steps > 0 && row.train_accuracy)
      row.train_accuracy = sums.correct / sums.steps;
    if (sums.seconds > 0) row.samples_per_second = sums.samples / sums.seconds;
    return row;
  }

 private:
  struct sums_of_epoch {
    double steps{0}, correct{0}, seconds{0}, samples{0};
  };

  std::uint64_t per_epoch() const { return std::max<std::uint64_t>(shape_.steps_per_epoch, 1); }

  run_shape shape_;
  bool whole_{true};       ///< Whether all records of this epoch were added.
  std::uint64_t step_{0};  ///< Step of the last record.
  double seconds_{0};      ///< Training time of the last record.
  sums_of_epoch of_epoch_;
};

std::string time_text(double seconds) {
  return human_duration(std::chrono::seconds(std::llround(std::clamp(seconds, 0.0, 1e9))));
}

/// " 2/10", padded so that columns stay aligned.
std::string of_all(std::uint64_t epoch, std::uint64_t epochs) {
  const auto total = std::to_string(epochs), number = std::to_string(epoch);
  return std::string(total.size() - std::min(total.size(), number.size()), ' ') + number + "/" + total;
}

/// "  0:41 (0:12)": the time since the run began and, if the row ends an epoch, the time of the epoch.
std::string times_field(const record& row) {
  return "  " + time_text(row.seconds) + (row.epoch_seconds ? " (" + time_text(*row.epoch_seconds) + ")" : "");
}

/// Position of a step in the run: the 1-based epoch, and the completed steps of that epoch.
struct position {
  std::uint64_t epoch, epochs, done, of;
};

position position_of(const run_shape& shape, std::uint64_t step) {
  const auto per_epoch = std::max<std::uint64_t>(shape.steps_per_epoch, 1);
  const auto epochs = std::max<std::uint64_t>((shape.steps + per_epoch - 1) / per_epoch, 1);
  const auto before = step == 0 ? 0 : (step - 1) / per_epoch;  // the last step of an epoch still belongs to it
  const auto in_epoch = std::min(per_epoch, shape.steps - std::min(shape.steps, before * per_epoch));
  return {before + 1, epochs, step - before * per_epoch, std::max<std::uint64_t>(in_epoch, 1)};
}

/// The last evaluation: its accuracy, and the step after which it was made.
struct last_evaluation {
  std::optional<double> accuracy{};
  std::uint64_t step{0};

  void hear(const record& line) {
    if (line.event == "end" || !line.val_accuracy) return;
    accuracy = line.val_accuracy;
    step = line.step;
  }
};

/// " after 1 step", " after 1,200 steps".
std::string steps_text(std::uint64_t steps) {
  return " after " + counted(steps, "step");
}

/// Returns "stopped early (…)".
std::string early_end(const rules::stop_options& stop, const std::string& by) {
  const auto times = [](std::uint64_t count, const std::string& which) {
    return count == 1 ? "one evaluation" : grouped(count) + which + " evaluations";
  };
  if (by == "target_accuracy" && stop.target_accuracy)
    return "stopped early (" + times(stop.target_hold, " consecutive") +
           " reached evaluate.target_accuracy = " + human_number(*stop.target_accuracy) + ")";
  if (by == "patience" && stop.patience)
    return "stopped early (" + times(*stop.patience, "") + " without improvement, evaluate.patience)";
  return "stopped early";
}

std::string ending(const run_shape& shape, const record& end, const last_evaluation& evaluated) {
  const auto how = end.status == "stopped_early" ? early_end(shape.stop, end.stopped_by)
                   : end.status == "max_seconds" ? "time limit reached (run.max_seconds)"
                   : end.status == "halted"      ? "ended by a guest"
                   : end.status.empty()          ? "done"
                                                 : end.status;
  // A failed run ends before the last steps are reported, so the number of steps is left out; the error names the step.
  const bool failed = end.status == "failed";
  auto text = how + (failed ? " after " : steps_text(end.step) + " in ") + time_text(end.seconds);
  if (evaluated.accuracy && std::isfinite(*evaluated.accuracy)) {
    text += formatted(", validation accuracy %.2f %%", 100 * *evaluated.accuracy);
    if (failed || evaluated.step != end.step) text += " after step " + grouped(evaluated.step);
  }
  if (!shape.folder.empty()) text += (failed ? "\nno final weights; metrics in " : "\nresults in ") + shape.folder;
  return text + '\n';
}

std::string continued(const run_shape& shape, const record& line) {
  auto text = "continued from the checkpoint of step " + grouped(line.step);
  for (const auto& setting : shape.changed) text += "; " + topology::described(setting);
  return text + '\n';
}

/// Returns the line about what a guest has made the run do.
std::string steered_text(const record& line) {
  const auto& note = *line.steered;
  auto text = (note.guest.empty() ? "a guest" : "guest " + note.guest) + ", after step " + grouped(line.step) + ": " +
              note.what;
  if (note.lr) text = text + " " + human_number(*note.lr) + " from step " + grouped(note.from) + " on";
  return text + '\n';
}

/// Returns whether a record gets a line: the end of an epoch, or an evaluation that is not at the end of an epoch.
bool gets_a_line(const run_shape& shape, const record& line) {
  const auto inside = line.step == 0 || line.step % std::max<std::uint64_t>(shape.steps_per_epoch, 1) != 0;
  return line.event == "epoch" || (line.event == "evaluation" && inside);
}

class live_display : public display {
 public:
  live_display(run_shape shape, std::ostream& out, live_options options)
      : shape_(std::move(shape)),
        out_(out),
        options_(std::move(options)),
        bar_columns_(bar_columns(options_.columns, shape_)),
        trained_(shape_) {}

  void write(const record& line) override {
    if (line.event == "start") entered_ = options_.clock();
    if (line.event == "resume") {
      entered_ = options_.clock();
      entered_at_ = step_ = line.step;
      out_ << "\r\x1b[K" << continued(shape_, line);
    }
    if (line.event == "steered") {
      make_room();
      out_ << steered_text(line) << std::flush;
      return;
    }
    if (line.train_loss) train_loss_ = line.train_loss;
    evaluated_.hear(line);
    trained_.hear(line);
    if (gets_a_line(shape_, line)) finished(trained_.shown(line));
    if (line.event == "end") {
      if (shown_) out_ << "\r\x1b[K";
      out_ << ending(shape_, line, evaluated_) << std::flush;
      shown_ = false;
    }
  }

  void make_room() override {
    if (shown_) out_ << "\r\x1b[K" << std::flush;
    shown_ = false;
  }

  void progress(std::uint64_t step) override {
    const auto now = options_.clock();
    if (position_of(shape_, step).epoch != position_of(shape_, step_).epoch) {
      entered_ = now;
      entered_at_ = step_;
    }
    step_ = step;
    if (shown_ && now - drawn_ < std::chrono::milliseconds(100)) return;
    draw(now);
  }

 private:
  /// Replaces the live line by the final line of an epoch, and continues below it. The training accuracy replaces part
  /// or all of the bar; it is omitted if the line is still too long.
  void finished(const record& row) {
    const auto where = position_of(shape_, row.step);
    const auto name = "epoch " + of_all(where.epoch, where.epochs), times = times_field(row);
    const auto excess = times.size() - std::min(times.size(), times_columns);  // hours shorten the bar
    const auto bar = bar_columns_ - std::min(bar_columns_, excess);
    const auto fields = [&](const std::string& train) {
      return rate_field(shape_, row.samples_per_second) + loss_field(row.train_loss) + train +
             accuracy_field(row.val_accuracy) + times;
    };
    const auto train = train_field(row);
    out_ << "\r\x1b[K";
    if (train.size() + least_bar <= bar)
      out_ << left(where, bar - train.size()) << fields(train) << '\n';
    else if (!train.empty() && name.size() + fields(train).size() < options_.columns)
      out_ << name << fields(train) << '\n';
    else
      out_ << left(where, bar) << fields("") << '\n';
    shown_ = false;
    if (step_ > row.step) draw(options_.clock());
    out_ << std::flush;
  }

  void draw(std::chrono::nanoseconds now) {
    const auto seconds = duration<double>(now - entered_).count();
    const auto speed = seconds > 0 ? static_cast<double>(step_ - entered_at_) / seconds : 0.0;
    std::optional<double> rate;
    if (speed > 0) rate = speed * static_cast<double>(shape_.samples_per_step);
    out_ << "\r\x1b[K" << left(position_of(shape_, step_), bar_columns_) << rate_field(shape_, rate)
         << loss_field(train_loss_) << accuracy_field(evaluated_.accuracy);
    if (speed > 0)
      out_ << "  eta " << time_text(static_cast<double>(shape_.steps - std::min(step_, shape_.steps)) / speed);
    out_ << std::flush;
    shown_ = true;
    drawn_ = now;
  }

  /// Returns the left part of a line: epoch, bar and percentage.
  std::string left(const position& where, std::size_t columns) const {
    const auto fraction = static_cast<double>(where.done) / static_cast<double>(where.of);
    return "epoch " + of_all(where.epoch, where.epochs) + " " + bar(fraction, columns) +
           formatted(" %3.0f%%", std::floor(100 * fraction));
  }

  /// Returns the bar, drawn in half columns.
  std::string bar(double fraction, std::size_t columns) const {
    const auto halves =
        static_cast<std::size_t>(std::lround(std::clamp(fraction, 0.0, 1.0) * 2 * static_cast<double>(columns)));
    std::string full;
    for (std::size_t i = 0; i < halves / 2; ++i) full += "━";
    if (halves % 2 == 1) full += "╸";
    const auto rest = columns - (halves + 1) / 2;
    if (!options_.colour) return full + std::string(rest, ' ');
    std::string faint;
    for (std::size_t i = 0; i < rest; ++i) faint += "━";
    return "\x1b[36m" + full + "\x1b[90m" + faint + "\x1b[0m";
  }

  /// Returns the columns that the other fields leave for the bar. The last column stays free, because some terminals
  /// wrap the line otherwise.
  static std::size_t bar_columns(unsigned columns, const run_shape& shape) {
    const auto digits = std::to_string(position_of(shape, shape.steps).epochs).size();
    const auto fields = 8 + 2 * digits + 5 + 3 * 13 + times_columns;  // "epoch 2/3 ", " 100%", rate, loss, accuracy
    return std::clamp<std::size_t>(columns, fields + 1 + least_bar, fields + 1 + 24) - fields - 1;
  }

  static constexpr std::size_t least_bar = 4;
  static constexpr std::size_t times_columns = 17;  // "  1:23:45 (12:34)", more than "  eta 1:23:45"

  run_shape shape_;
  std::ostream& out_;
  live_options options_;
  std::size_t bar_columns_;
  std::optional<double> train_loss_;  ///< Most recent training loss.
  last_evaluation evaluated_;
  training_figures trained_;
  std::uint64_t step_{0};
  std::chrono::nanoseconds entered_{0};  ///< When this epoch began.
  std::uint64_t entered_at_{0};          ///< Step at which this epoch began.
  std::chrono::nanoseconds drawn_{0};
  bool shown_{false};  ///< Whether the cursor is at the end of a live line.
};

class line_display : public display {
 public:
  line_display(run_shape shape, std::ostream& out) : shape_(std::move(shape)), out_(out), trained_(shape_) {}

  void write(const record& line) override {
    evaluated_.hear(line);
    trained_.hear(line);
    if (line.event == "resume") out_ << continued(shape_, line);
    if (line.event == "steered") out_ << steered_text(line);
    if (gets_a_line(shape_, line)) show(trained_.shown(line));
    if (line.event == "end") out_ << ending(shape_, line, evaluated_);
    out_ << std::flush;
  }

  void progress(std::uint64_t /*step*/) override {}

 private:
  void show(const record& row) {
    const auto where = position_of(shape_, row.step);
    out_ << "epoch " << of_all(where.epoch, where.epochs) << rate_field(shape_, row.samples_per_second)
         << loss_field(row.train_loss) << train_field(row) << accuracy_field(row.val_accuracy)
         << formatted("  %6.1f s", row.seconds);
    if (row.epoch_seconds)
      out_ << formatted(" (%.1f s)", *row.epoch_seconds);
    else
      out_ << "  step " << row.step;
    out_ << '\n';
  }

  run_shape shape_;
  std::ostream& out_;
  last_evaluation evaluated_;
  training_figures trained_;
};

class json_display : public display {
 public:
  json_display(std::ostream& out, const run_shape& shape) : out_(out), about_(shape.about), changed_(shape.changed) {}
  void write(const record& line) override { out_ << json_line(line, about_, changed_) << '\n' << std::flush; }
  void progress(std::uint64_t /*step*/) override {}

 private:
  std::ostream& out_;
  std::optional<origin> about_;
  std::vector<topology::changed_setting> changed_;
};

class quiet_display : public display {
 public:
  void write(const record& /*line*/) override {}
  void progress(std::uint64_t /*step*/) override {}
};

}  // namespace

run_shape shape_of(const plan& plan, const std::string& folder) {
  return {.steps = plan.steps,
          .steps_per_epoch = plan.steps_per_epoch,
          .samples_per_step = static_cast<std::uint64_t>(data::samples_per_step(plan.sampling)),
          .sample = plan.facts.sequences ? "seq"
                    : plan.images()      ? "img"
                                         : "row",
          .folder = folder,
          .stop = {.target_accuracy = plan.file.evaluate.target_accuracy,
                   .target_hold = plan.file.evaluate.target_hold,
                   .patience = plan.file.evaluate.patience},
          .changed = {}};
}

std::unique_ptr<display> make_live_display(const run_shape& shape, std::ostream& out, const live_options& options) {
  return std::make_unique<live_display>(shape, out, options);
}

std::unique_ptr<display> make_line_display(const run_shape& shape, std::ostream& out) {
  return std::make_unique<line_display>(shape, out);
}

std::unique_ptr<display> make_json_display(const run_shape& shape, std::ostream& out) {
  return std::make_unique<json_display>(out, shape);
}

std::unique_ptr<display> make_quiet_display() {
  return std::make_unique<quiet_display>();
}

std::unique_ptr<display> make_display(verbosity how, const run_shape& shape) {
  if (how == verbosity::quiet) return make_quiet_display();
  if (how == verbosity::json) return make_json_display(shape, std::cout);
  if (!is_terminal(STDOUT_FILENO)) return make_line_display(shape, std::cout);
  return make_live_display(
      shape, std::cout, {.columns = columns_of(STDOUT_FILENO, 80), .colour = shows_colours(STDOUT_FILENO), .clock = [] {
                           return std::chrono::steady_clock::now().time_since_epoch();
                         }});
}

}  // namespace troupe::telemetry
