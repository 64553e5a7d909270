#include "tests/support/doctest.hpp"

#include "troupe/runtime/checkpoint/model_file.hpp"
#include "troupe/runtime/support/units.hpp"
#include "troupe/runtime/telemetry/display.hpp"
#include "troupe/runtime/telemetry/file_journal.hpp"
#include "troupe/runtime/telemetry/metrics.hpp"
#include "troupe/runtime/telemetry/run_folder.hpp"
#include "troupe/runtime/telemetry/times_file.hpp"
#include "troupe/runtime/topology/error.hpp"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <unistd.h>

using namespace troupe;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

struct scratch {
  fs::path folder = fs::temp_directory_path() / ("troupe-run-" + std::to_string(::getpid()));
  fs::path before = fs::current_path();
  scratch() {
    fs::create_directories(folder);
    fs::current_path(folder);
  }
  ~scratch() {
    fs::current_path(before);
    fs::remove_all(folder);
  }
};

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// 2023-11-14T22:13:20Z
const std::chrono::system_clock::time_point moment{1'700'000'000s};

std::string refusal(const telemetry::run_folder_options& options) {
  try {
    const telemetry::run_folder folder(options, moment);
  } catch (const input_error& error) {
    return error.what();
  }
  return "accepted";
}

record epoch_record(std::uint64_t epoch, std::uint64_t step, double seconds, double loss,
                    std::optional<double> accuracy = std::nullopt) {
  record line;
  line.event = "epoch";
  line.epoch = epoch;
  line.step = step;
  line.seconds = seconds;
  line.samples_per_second = 1203;
  line.train_loss = loss;
  line.val_accuracy = accuracy;
  if (accuracy) line.val_loss = 0.25;
  line.epoch_seconds = seconds;
  line.lr = 0.05;
  return line;
}

record evaluation_record(std::uint64_t epoch, std::uint64_t step, double seconds, double accuracy) {
  record line;
  line.event = "evaluation";
  line.epoch = epoch;
  line.step = step;
  line.seconds = seconds;
  line.val_loss = 0.25;
  line.val_accuracy = accuracy;
  return line;
}

record of_event(const std::string& event, std::uint64_t step = 0, double seconds = 0) {
  record line;
  line.event = event;
  line.step = step;
  line.seconds = seconds;
  if (event == "end") line.status = "done";
  return line;
}

/// Columns that a terminal shows of UTF-8 text.
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

TEST_CASE("a run's folder is named after its file and the time") {
  const scratch here;
  const telemetry::run_folder folder({.out = {}, .topology = "topologies/ring.toml"}, moment);
  CHECK(folder.path() == "runs/ring-20231114T221320Z");
  CHECK(fs::is_directory(folder.path()));
  const telemetry::run_folder second({.out = {}, .topology = "topologies/ring.toml"}, moment);
  CHECK(second.path() == "runs/ring-20231114T221320Z-2");
}

TEST_CASE("a folder with a finished run is refused unless it may be overwritten") {
  const scratch here;
  const auto leave = [](std::string_view name) {
    telemetry::run_folder({.out = "deep/out"}, moment).write(name, "old");
  };
  leave("epochs.csv");
  CHECK(refusal({.out = "deep/out"}) == "accepted");  // a run that did not finish
  {
    const telemetry::run_folder folder({.out = "deep/out"}, moment);
    folder.write("epochs.csv", "old");
    folder.write("model.safetensors", "old");
  }
  CHECK(refusal({.out = "deep/out"}) ==
        "deep/out: holds a finished run; replace it with --overwrite, or name another folder with --out");
  CHECK(read("deep/out/epochs.csv") == "old");
  CHECK(refusal({.out = "deep/out", .overwrite = true}) == "accepted");
  CHECK(fs::is_empty("deep/out"));
}

TEST_CASE("a folder into which a run is writing is refused to another, also with overwrite") {
  const scratch here;
  const telemetry::run_folder folder({.out = "out"}, moment);
  CHECK(
      refusal({.out = "out", .overwrite = true}) ==
      "out: cannot write the outputs of the run there: another run is writing into it; name another folder with --out");
}

TEST_CASE("a run does not replace the very file it is made from") {
  const scratch here;
  std::ofstream("topology.toml") << "# mine";
  CHECK(refusal({.out = ".", .topology = "topology.toml"}).find("would be replaced") != std::string::npos);
  CHECK(read("topology.toml") == "# mine");
}

TEST_CASE("a folder that cannot be written is refused with path, reason and mend") {
  const scratch here;
  std::ofstream("file") << "x";
  CHECK(refusal({.out = "file"}) ==
        "file: cannot write the outputs of the run there: it is a file; name another folder with --out");
  CHECK(refusal({.out = "file/below"}) ==
        "file/below: cannot write the outputs of the run there: Not a directory; name another folder with --out");
  const auto said = refusal({.out = "/proc/troupe"});
  CHECK(said.starts_with("/proc/troupe: cannot write the outputs of the run there: "));
}

TEST_CASE("every line of the metrics has every key, and finite numbers only") {
  auto line = epoch_record(1, 937, 12.5, std::numeric_limits<double>::quiet_NaN());
  line.bytes_sent = 4096;
  CHECK(telemetry::json_line(line) ==
        R"({"event":"epoch","epoch":1,"step":937,"updates":0,"seconds":12.5,"samples_per_second":1203.0,)"
        R"("train_loss":null,"val_loss":null,"val_accuracy":null,"val_top_k_accuracy":null,"lr":0.05,)"
        R"("epoch_seconds":12.5,"data_wait":null,"bytes_sent":4096,"staleness_mean":null,)"
        R"("staleness_max":null,"staleness_counts":null,"consensus_distance":null,"status":null})");
  CHECK(nlohmann::json::parse(telemetry::json_line(of_event("end")))["status"] == "done");
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
  CHECK(line.find("\r\x1b[Kepoch 2/3") != std::string::npos);  // the live line goes on below
  auto end = of_event("end", 300, 41);
  end.status = "interrupted";
  shown->write(end);
  CHECK(said() == "\r\x1b[Kinterrupted after 300 steps in 0:41, validation accuracy 97.31 %\nresults in runs/ring\n");
}

TEST_CASE("a line of a long run stays within 80 columns") {
  std::ostringstream out;
  const auto shown = telemetry::make_live_display({.steps = 16'000, .steps_per_epoch = 100, .folder = ""}, out,
                                                  {.columns = 80, .colour = false, .clock = [] { return 0ns; }});
  shown->write(epoch_record(99, 9'900, 356'400, 0.1834, 0.9731));
  const auto line = out.str();
  CHECK(line.find("epoch  99/160 ") != std::string::npos);
  CHECK(line.find("  99:00:00 (99:00:00)\n") != std::string::npos);
  CHECK(columns(line) - 5 <= 79);  // less "\r\x1b[K" and the end of the line
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
  shown->write(of_event("end", 250, 10));
  CHECK(out.str() ==
        "epoch 1/3                            val 50.00 %     2.0 s  step 50\n"
        "epoch 1/3   1203 img/s  loss 0.1834  val 97.31 %     4.0 s (4.0 s)\n"
        "done after 250 steps in 0:10, validation accuracy 97.31 %\n");
}

TEST_CASE("a journal leaves the files of the contract") {
  const scratch here;
  topology::topology file;
  file.file = "ring.toml";
  file.run.epochs = 1;
  file.data.name = "mnist";
  file.workers = {.count = 1, .loop = {"gradient", "apply"}, .device = {"cpu"}};
  const auto plan = make_plan(file, 64);
  std::ostringstream lines;
  telemetry::make_way_for("times/of.csv", false, "results", "t.toml");
  telemetry::file_journal journal(plan, telemetry::run_folder({.out = "out"}), telemetry::make_json_display(lines),
                                  "times/of.csv");
  CHECK(fs::exists("out/topology.toml"));
  journal.write(of_event("start"));
  CHECK(read("out/graph.svg").starts_with("<?xml"));
  journal.progress(1);
  journal.write(evaluation_record(1, 2, 0.5, 0.5));
  CHECK(read("out/epochs.csv") == telemetry::csv_header() + "\n");
  journal.write(epoch_record(1, 2, 0.5, 0.25, 0.5));
  CHECK(read("out/epochs.csv") == telemetry::csv_header() + "\n1,2,0.5,1203.0,0.25,0.25,0.5,0,0.5,0.05\n");
  CHECK(read("times/of.csv") == "seconds,val_accuracy\n0.5,0.5\n");
  journal.keep({.origin = {}, .values = at::ones({plan.layout.total})});
  journal.save({.origin = {}, .values = at::zeros({plan.layout.total})});
  journal.write(of_event("end", 2, 1));
  CHECK(read("out/metrics.jsonl") == lines.str());
  const auto content = checkpoint::read_safetensors("out/model.safetensors");
  const auto card = checkpoint::card_of("out/model.safetensors", content);
  CHECK(card.model == "convnet");
  CHECK(card.scale.mean == std::vector{0.1307});
  CHECK(content.tensors.size() == 8);
  const auto best = checkpoint::read_safetensors("out/model_best.safetensors");
  CHECK(best.metadata == content.metadata);
  CHECK(best.tensors.size() == 8);
  const auto bytes = read("out/model.safetensors");
  CHECK(bytes != read("out/model_best.safetensors"));
  CHECK(bytes.find("out") == std::string::npos);
}

namespace {

std::string refusal_of(const std::string& pattern, const plan& plan) {
  try {
    telemetry::times_path(pattern, plan);
  } catch (const input_error& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("the pattern of --csv says what was run") {
  topology::topology file;
  file.run.seed = 7;
  file.run.epochs = 3;
  file.data.name = "mnist";
  file.data.batch_size = 16;
  file.optimizer.lr = 0.1;
  file.optimizer.momentum = 0.9;
  file.optimizer.warmup_epochs = 5;
  file.workers = {.count = 4, .loop = {"gradient", "apply"}, .device = {"cpu"}};
  const auto plan = make_plan(file, 640);
  CHECK(telemetry::times_path("{ranks}ranks-{batch}bs-{lr}lr-{momentum}m-{warmup}w.csv", plan) ==
        "4ranks-16bs-0.1lr-0.9m-5w.csv");
  CHECK(telemetry::times_path("of/{model}-{data}-{optimizer}-{seed}-{epochs}", plan) == "of/convnet-mnist-sgd-7-3");
  CHECK(telemetry::times_path("plain.csv", plan) == "plain.csv");
  CHECK(
      refusal_of("{rank}.csv", plan) ==
      "--csv \"{rank}.csv\": {rank} is no placeholder; expected {ranks}, {batch}, {lr}, {momentum}, {warmup}, {seed}, "
      "{epochs}, {model}, {data} or {optimizer} (did you mean \"ranks\"?)");
  for (const auto* pattern : {"{", "}", "{ranks", "ranks}", "{{ranks}}", "{ranks}}"})
    CHECK(refusal_of(pattern, plan).find("a brace stands without its other one; expected") != std::string::npos);
}

TEST_CASE("the file of --csv replaces another one only where that is allowed") {
  const scratch here;
  telemetry::make_way_for("deep/er/times.csv", false, "results", "t.toml");
  std::ofstream("deep/er/times.csv") << "old";
  CHECK_NOTHROW(telemetry::make_way_for("deep/er/times.csv", true, "results", "t.toml"));
  CHECK_THROWS_AS(telemetry::make_way_for("deep/er/times.csv", false, "results", "t.toml"), input_error);
  CHECK_THROWS_AS(telemetry::make_way_for("deep/er", true, "results", "t.toml"), input_error);
  CHECK_THROWS_AS(telemetry::make_way_for("deep/er/times.csv/below.csv", true, "results", "t.toml"), input_error);
  for (const auto* own : {"results/metrics.jsonl", "results/model.safetensors", "results/epochs.csv"})
    CHECK_THROWS_AS(telemetry::make_way_for(own, true, "results", "t.toml"), input_error);
  CHECK_NOTHROW(telemetry::make_way_for("results/times.csv", true, "results", "t.toml"));
  std::ofstream("t.toml") << "";
  CHECK_THROWS_AS(telemetry::make_way_for("./t.toml", true, "results", "t.toml"), input_error);
}

TEST_CASE("a table tells of each class, their means and the accuracy") {
  // Of 4 a and 6 b: 3 a were taken for a, 4 b for b.
  const std::vector<telemetry::named_counts> classes{{"a", {.samples = 4, .found = 5, .correct = 3}},
                                                     {"b", {.samples = 6, .found = 5, .correct = 4}}};
  CHECK(telemetry::table_of(classes) ==
        "class          precision     recall         F1    samples\n"
        "a                 0.6000     0.7500     0.6667          4\n"
        "b                 0.8000     0.6667     0.7273          6\n"
        "macro average     0.7000     0.7083     0.6970         10\n"
        "accuracy                                0.7000         10\n");
  const auto line = nlohmann::json::parse(telemetry::json_line(evaluation{.loss = 1, .accuracy = 0.7}, classes));
  CHECK(line["classes"][1]["recall"] == doctest::Approx(4.0 / 6));
  CHECK(line["classes"][0]["class"] == "a");
  CHECK(!nlohmann::json::parse(telemetry::json_line(evaluation{.loss = 1})).contains("classes"));
}
