// The output of a run on a terminal and in a pipe.
#include "troupe/runtime/telemetry/display.hpp"

#include "tests/support/doctest.hpp"
#include "tests/support/records.hpp"

#include "troupe/runtime/support/units.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

namespace telemetry_display_test {

using namespace troupe;
using namespace troupe::testing;
using namespace std::chrono_literals;

namespace {

/// Returns the number of columns of UTF-8 text on a terminal.
std::size_t columns(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0u) != 0x80u; }));
}

}  // namespace

TEST_CASE("numbers read as people write them") {
  CHECK(grouped(0) == "0");
  CHECK(grouped(999) == "999");
  CHECK(grouped(60'000) == "60,000");
  CHECK(grouped(1'000'002'003) == "1,000,002,003");
  CHECK(human_bytes(1023) == "1023 B");
  CHECK(human_bytes(87'616) == "85.6 KiB");
  CHECK(human_bytes(~std::uint64_t{0}) == "16.0 EiB");
  CHECK(human_duration(59s) == "0:59");
  CHECK(human_duration(3'661s) == "1:01:01");
  CHECK(human_number(0.05) == "0.05");
}

TEST_CASE("a terminal shows one line for each epoch, with a bar, within 80 columns") {
  std::ostringstream out;
  auto now = 0ns;
  const auto shown = telemetry::make_live_display(
      {.steps = 300, .steps_per_epoch = 100, .samples_per_step = 64, .folder = "runs/ring"}, out,
      {.columns = 80, .colour = false, .clock = [&] { return now; }});
  const auto said = [&] {
    const auto text = out.str();
    out.str("");
    return text;
  };
  shown->write(of_event("start"));
  now = 1s;
  shown->progress(25);
  auto line = said();
  CHECK(line == "\r\x1b[Kepoch 1/3 ━━        25%   1600 img/s                            eta 0:11");
  CHECK(columns(line) - 4 <= 79);
  now += 50ms;
  shown->progress(30);
  CHECK(said().empty());  // at most ten times a second
  now = 4s;
  shown->progress(99);
  CHECK(said().find("epoch 1/3 ━━━━━━━━  99%") != std::string::npos);
  now = 5s;
  shown->progress(164);  // the evaluation of epoch 1 is under way
  CHECK(said().find("epoch 2/3 ━━━━━     64%") != std::string::npos);
  shown->write(evaluation_record(1, 100, 4, 0.9731));
  CHECK(said().empty());
  shown->write(epoch_record(1, 100, 4, 0.1834, 0.9731));
  line = said();
  CHECK(line.starts_with("\r\x1b[Kepoch 1/3 ━━━━━━━━ 100%   1203 img/s  loss 0.1834  val 97.31 %  0:04 (0:04)\n"));
  CHECK(line.find("\r\x1b[Kepoch 2/3") != std::string::npos);  // the live line continues below
  auto end = of_event("end", 300, 41);
  end.status = "interrupted";
  shown->write(end);
  CHECK(said() ==
        "\r\x1b[Kinterrupted after 300 steps in 0:41, validation accuracy 97.31 % after step 100\nresults in "
        "runs/ring\n");
}

TEST_CASE("a line of a long run stays within 80 columns") {
  std::ostringstream out;
  const auto shown = telemetry::make_live_display({.steps = 16'000, .steps_per_epoch = 100, .folder = ""}, out,
                                                  {.columns = 80, .colour = false, .clock = [] { return 0ns; }});
  shown->write(epoch_record(99, 9'900, 356'400, 0.1834, 0.9731));
  const auto line = out.str();
  CHECK(line.find("epoch  99/160 ") != std::string::npos);
  CHECK(line.find("  99:00:00 (99:00:00)\n") != std::string::npos);
  CHECK(columns(line) - 5 <= 79);  // without "\r\x1b[K" and the line end
  auto with_accuracy = epoch_record(99, 9'900, 356'400, 0.1834, 0.9731);
  with_accuracy.train_accuracy = 0.871;
  out.str("");
  shown->write(with_accuracy);
  CHECK(out.str() == line);  // there is no room for it
}

TEST_CASE("an epoch's line shows the training accuracy in place of the bar, or beside it where there is room") {
  for (const unsigned width : {80U, 120U}) {
    std::ostringstream out;
    const auto shown = telemetry::make_live_display({.steps = 300, .steps_per_epoch = 100, .folder = ""}, out,
                                                    {.columns = width, .colour = false, .clock = [] { return 0ns; }});
    auto line = epoch_record(1, 100, 4, 0.1834, 0.9731);
    line.train_accuracy = 0.871;
    shown->write(line);
    CHECK(out.str() == (width == 80 ? "\r\x1b[Kepoch 1/3   1203 img/s  loss 0.1834  train 87.1 %  val 97.31 %  0:04 "
                                      "(0:04)\n"
                                    : "\r\x1b[Kepoch 1/3 ━━━━━━━━━━ 100%   1203 img/s  loss 0.1834  train 87.1 %  val "
                                      "97.31 %  0:04 (0:04)\n"));
    CHECK(columns(out.str()) - 5 < width);
  }
}

TEST_CASE("a continued run says so, and its speed counts only its own steps") {
  std::ostringstream out;
  std::chrono::nanoseconds now = 500s;
  const telemetry::run_shape shape{.steps = 300, .steps_per_epoch = 300, .samples_per_step = 10, .folder = ""};
  const auto shown =
      telemetry::make_live_display(shape, out, {.columns = 100, .colour = false, .clock = [&] { return now; }});
  shown->write(of_event("resume", 100, 40));
  CHECK(out.str() == "\r\x1b[Kcontinued from the checkpoint of step 100\n");
  now += 5s;
  shown->progress(150);
  CHECK(out.str().find("   100 img/s") != std::string::npos);  // 50 steps of 10 samples in 5 s
  CHECK(out.str().ends_with("eta 0:15"));                      // 150 steps
  const auto length = out.str().size();
  shown->make_room();
  CHECK(out.str().substr(length) == "\r\x1b[K");
  std::ostringstream plain;
  telemetry::make_line_display(shape, plain)->write(of_event("resume", 1000, 40));
  CHECK(plain.str() == "continued from the checkpoint of step 1,000\n");
}

TEST_CASE("a pipe receives plain lines") {
  std::ostringstream out;
  const auto shown =
      telemetry::make_line_display({.steps = 250, .steps_per_epoch = 100, .samples_per_step = 64, .folder = ""}, out);
  shown->write(of_event("start"));
  shown->progress(1);
  shown->write(evaluation_record(0, 50, 2, 0.5));
  shown->write(evaluation_record(1, 100, 4, 0.9731));
  shown->write(epoch_record(1, 100, 4, 0.1834, 0.9731));
  auto with_accuracy = epoch_record(2, 200, 8, 0.1834, 0.9731);
  with_accuracy.train_accuracy = 0.871;
  shown->write(with_accuracy);
  shown->write(of_event("end", 250, 10));
  CHECK(out.str() ==
        "epoch 1/3                            val 50.00 %     2.0 s  step 50\n"
        "epoch 1/3   1203 img/s  loss 0.1834  val 97.31 %     4.0 s (4.0 s)\n"
        "epoch 2/3   1203 img/s  loss 0.1834  train 87.1 %  val 97.31 %     8.0 s (8.0 s)\n"
        "done after 250 steps in 0:10, validation accuracy 97.31 % after step 200\n");
}

TEST_CASE("the last line of a failed run gives no number of steps, which may be behind") {
  std::ostringstream out;
  const auto shown = telemetry::make_line_display({.steps = 250, .steps_per_epoch = 100, .folder = "runs/a"}, out);
  shown->write(evaluation_record(0, 50, 2, 0.5));
  out.str("");
  auto end = of_event("end", 50, 10);
  end.status = "failed";
  shown->write(end);
  CHECK(out.str() ==
        "failed after 0:10, validation accuracy 50.00 % after step 50\nno final weights; metrics in runs/a\n");
}

TEST_CASE("an epoch's line is about the whole epoch, an evaluation's about the steps since the record before") {
  std::ostringstream out;
  const auto shown =
      telemetry::make_line_display({.steps = 100, .steps_per_epoch = 100, .samples_per_step = 10, .folder = ""}, out);
  shown->write(of_event("start"));
  const auto fill = [](record line, double loss, double accuracy, double seconds, double rate) {
    line.train_loss = loss;
    line.train_accuracy = accuracy;
    line.train_seconds = seconds;
    line.samples_per_second = rate;
    return line;
  };
  shown->write(fill(evaluation_record(0, 80, 8, 0.5), 2, 0.5, 8, 100));
  shown->write(fill(evaluation_record(1, 100, 9, 0.6), 1, 0.9, 9, 200));
  auto epoch = fill(epoch_record(1, 100, 9, 1, 0.6), 1, 0.9, 9, 200);
  epoch.epoch_train_loss = 1.8;
  epoch.epoch_seconds = 9;
  shown->write(epoch);
  CHECK(out.str().find("100 img/s  loss 2.0000  train 50.0 %  val 50.00 %") != std::string::npos);
  CHECK(out.str().find("111 img/s  loss 1.8000  train 58.0 %  val 60.00 %") != std::string::npos);
  out.str("");
  const auto continued =
      telemetry::make_line_display({.steps = 100, .steps_per_epoch = 100, .samples_per_step = 10, .folder = ""}, out);
  continued->write(of_event("resume", 90, 8));
  continued->write(epoch);
  CHECK(out.str().find("train") == std::string::npos);  // the training loss of the first 90 steps is unknown
}

TEST_CASE("a run that stops early says why") {
  const auto said = [](const rules::stop_options& stop, const std::string& by) {
    std::ostringstream out;
    const auto shown =
        telemetry::make_line_display({.steps = 100, .steps_per_epoch = 100, .folder = "", .stop = stop}, out);
    auto end = of_event("end", 30, 1);
    end.status = "stopped_early";
    end.stopped_by = by;
    shown->write(end);
    return out.str();
  };
  CHECK(said({.target_accuracy = 0.9}, "target_accuracy")
            .starts_with(
                "stopped early (2 consecutive evaluations reached evaluate.target_accuracy = 0.9) after 30 steps "));
  CHECK(said({.target_accuracy = 0.9, .target_hold = 1}, "target_accuracy")
            .starts_with("stopped early (one evaluation reached evaluate.target_accuracy = 0.9) after "));
  CHECK(said({.target_accuracy = 0.9, .patience = 3}, "patience")
            .starts_with("stopped early (3 evaluations without improvement, evaluate.patience) after "));
}

TEST_CASE("a continued run lists the settings that have changed") {
  std::ostringstream out;
  const auto shown = telemetry::make_line_display(
      {.steps = 100, .folder = "", .changed = {{.key = "optimizer.lr", .before = "0.1", .now = "0.05"}}}, out);
  shown->write(of_event("resume", 50, 4));
  CHECK(out.str() == "continued from the checkpoint of step 50; optimizer.lr was 0.1 and is 0.05\n");
}

}  // namespace telemetry_display_test
