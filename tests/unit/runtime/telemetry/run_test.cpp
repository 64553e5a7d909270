// The folder of a run, the files in it, and the files beside it.
#include "tests/support/doctest.hpp"
#include "tests/support/records.hpp"
#include "tests/support/scratch.hpp"

#include "troupe/files/error.hpp"
#include "troupe/runtime/checkpoint/model_file.hpp"
#include "troupe/runtime/telemetry/display.hpp"
#include "troupe/runtime/telemetry/file_journal.hpp"
#include "troupe/runtime/telemetry/metrics.hpp"
#include "troupe/runtime/telemetry/pattern_files.hpp"
#include "troupe/runtime/telemetry/run_folder.hpp"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace telemetry_run_test {

using namespace troupe;
using namespace troupe::testing;
using namespace std::chrono_literals;
using telemetry::pattern_option;
namespace fs = std::filesystem;

namespace {

/// 2023-11-14T22:13:20Z
const std::chrono::system_clock::time_point launch_time{1'700'000'000s};

std::string refusal(const telemetry::run_folder_options& options) {
  try {
    const telemetry::run_folder folder(options, launch_time);
  } catch (const input_error& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("a run's folder is named after its file and the time") {
  const working_folder here;
  const telemetry::run_folder folder({.out = {}, .topology = "topologies/ring.toml"}, launch_time);
  CHECK(folder.path() == "runs/ring-20231114T221320Z");
  CHECK(fs::is_directory(folder.path()));
  const telemetry::run_folder second({.out = {}, .topology = "topologies/ring.toml"}, launch_time);
  CHECK(second.path() == "runs/ring-20231114T221320Z-2");
}

TEST_CASE("a folder with a finished run is refused unless it may be overwritten") {
  const working_folder here;
  const auto leave = [](std::string_view name) {
    telemetry::run_folder({.out = "deep/out"}, launch_time).write(name, "old");
  };
  leave("epochs.csv");
  CHECK(refusal({.out = "deep/out"}) == "accepted");  // a run that was not finished
  {
    const telemetry::run_folder folder({.out = "deep/out"}, launch_time);
    folder.write("epochs.csv", "old");
    folder.write("model.safetensors", "old");
  }
  CHECK(
      refusal({.out = "deep/out"}) ==
      "deep/out: the folder contains a finished run; replace it with --overwrite, or choose another folder with --out");
  CHECK(read("deep/out/epochs.csv") == "old");
  CHECK(refusal({.out = "deep/out", .overwrite = true}) == "accepted");
  CHECK(names_in("deep/out") == std::vector<std::string>{".troupe-run"});
}

TEST_CASE("a run without its final weights is refused if it has anything that would have to be computed again") {
  const auto leave = [](const fs::path& name, std::string_view text) {
    const telemetry::run_folder folder({.out = "out", .overwrite = true}, launch_time);
    fs::create_directories(fs::path("out" / name).parent_path());
    folder.write(name.string(), text);
  };
  const std::string end = ", or choose another folder with --out";
  for (const std::string name : {"model_best.safetensors", "trace.json", "deliveries.bin", "links.csv"}) {
    const working_folder here;
    leave(name, "precious");
    CHECK(refusal({.out = "out"}) == "out: the folder contains a run without model.safetensors, but with " + name +
                                         "; replace it with --overwrite" + end);
    CHECK(read("out/" + name) == "precious");
  }
  const working_folder here;
  leave("checkpoints/step-000000000001/manifest.json", "{}");
  std::ofstream("out/model_best.safetensors") << "precious";
  CHECK(refusal({.out = "out"}) ==
        "out: the folder contains a run without model.safetensors, but with model_best.safetensors and checkpoints; "
        "continue it with --resume out, replace it with --overwrite" +
            end);
  CHECK(refusal({.out = "out", .resume = true}) == "accepted");
  leave("metrics.jsonl", R"({"event":"start"})"
                         "\n"
                         R"({"event":"epoch"})"
                         "\n");
  CHECK(refusal({.out = "out"}).find("but with metrics.jsonl; replace it") != std::string::npos);
  leave("metrics.jsonl", R"({"event":"start"})"
                         "\n"
                         R"({"event":"end"})"
                         "\n");
  std::ofstream("out/notes.txt") << "mine";
  CHECK(refusal({.out = "out"}) == "accepted");
  CHECK(read("out/notes.txt") == "mine");
}

TEST_CASE("files that are not of a run are neither removed nor replaced, unless that is said") {
  const working_folder here;
  fs::create_directories("mine/recorded_from");
  const auto fill = [] {
    for (const auto* name : {"report.html", "trace.json", "topology.toml", "notes.txt", "recorded_from/notes",
                             ".writable", "topology.toml.tmp"})
      std::ofstream(fs::path("mine") / name) << "mine";
  };
  fill();
  CHECK(
      refusal({.out = "mine"}) ==
      "mine: the folder is not that of a run: it contains .writable, notes.txt and 5 more, but no .troupe-run; choose "
      "an empty folder with --out, or add --overwrite, which replaces the files that a run writes and keeps all "
      "others");
  CHECK(names_in("mine").size() == 7);
  for (const auto& name : names_in("mine"))
    if (name != "recorded_from") CHECK(read("mine/" + name) == "mine");
  CHECK(refusal({.out = "mine", .overwrite = true}) == "accepted");
  CHECK(names_in("mine") ==
        std::vector<std::string>{".troupe-run", ".writable", "notes.txt", "recorded_from", "topology.toml.tmp"});
  CHECK(read("mine/recorded_from/notes") == "mine");
  // A single file, a copy of a topology, or a folder named like the marker does not make the folder that of a run.
  for (const auto* name : {"one/notes.txt", "two/topology.toml", "three/.troupe-run/file"}) {
    fs::create_directories(fs::path(name).parent_path());
    std::ofstream(name) << "mine";
    CHECK(refusal({.out = *fs::path(name).begin()}).find("the folder is not that of a run") != std::string::npos);
    CHECK(read(name) == "mine");
  }
}

TEST_CASE("a new file system is empty, and so is a folder that is reached by a link") {
  const working_folder here;
  fs::create_directories("disk/lost+found");
  CHECK(refusal({.out = "disk"}) == "accepted");
  fs::create_directories("real");
  fs::create_symlink("real", "link");
  CHECK(refusal({.out = "link"}) == "accepted");
  CHECK(fs::exists("real/.troupe-run"));
  fs::create_symlink("nowhere", "broken");
  CHECK(refusal({.out = "broken"}) ==
        "broken: cannot write the results of the run to this folder: it is a link, and the folder that it names does "
        "not exist; choose another folder with --out");
}

TEST_CASE("a run does not replace what it reads") {
  const working_folder here;
  { const telemetry::run_folder folder({.out = "out"}, launch_time); }
  std::ofstream("out/model_best.safetensors") << "mine";
  fs::create_directories("out/checkpoints/step-000000000001");
  std::ofstream("out/checkpoints/step-000000000001/model_best.safetensors") << "mine";
  fs::create_directory_symlink("out", "same");
  for (const auto* input : {"out/model_best.safetensors", "same/model_best.safetensors",
                            "out/checkpoints/step-000000000001/model_best.safetensors"}) {
    CHECK(refusal({.out = "out", .inputs = {"", input}, .overwrite = true}) ==
          "out: cannot write the results of the run to this folder: the run reads " + std::string(input) +
              ", which would be overwritten; choose another folder with --out");
    CHECK(read(input) == "mine");
  }
  CHECK(refusal({.out = "out", .inputs = {"elsewhere"}, .overwrite = true}) == "accepted");
}

TEST_CASE("a folder that is claimed before a run and not used is as before") {
  const working_folder here;
  telemetry::claim_for_parts("new", false);
  CHECK(refusal({.out = "new"}) == "accepted");
  telemetry::claim_for_parts("new", false);
  telemetry::disclaim("new", false);
  CHECK(!fs::exists("new"));
  fs::create_directories("empty");
  telemetry::claim_for_parts("empty", false);
  telemetry::disclaim("empty", true);
  CHECK(fs::is_empty("empty"));
  std::ofstream("empty/notes.txt") << "mine";
  CHECK_THROWS_AS(telemetry::claim_for_parts("empty", false), input_error);
  telemetry::claim_for_parts("empty", true);
  telemetry::disclaim("empty", true);
  CHECK(!fs::exists("empty/.troupe-run"));  // the first node marks it
}

TEST_CASE("event files of others are kept by each process of a run") {
  const working_folder here;
  const auto* events = "mine/events.out.tfevents.0000000001.host";
  fs::create_directories("mine");
  std::ofstream(events) << "mine";
  { const telemetry::run_folder launcher({.out = "mine", .overwrite = true, .clear_later = true}, launch_time); }
  telemetry::claim_for_parts("mine", true);
  const telemetry::run_folder first({.out = "mine", .overwrite = true}, launch_time);
  CHECK(fs::exists(events));
  CHECK(fs::exists("mine/.troupe-run"));
}

TEST_CASE("a folder that is removed while a run writes to it is made again, unless somebody else has it by then") {
  const working_folder here;
  const telemetry::run_folder folder({.out = "out"}, launch_time);
  CHECK(!folder.restore());
  fs::remove_all("out");
  CHECK(folder.restore());
  CHECK(names_in("out") == std::vector<std::string>{".troupe-run"});
  CHECK(refusal({.out = "out"}).find("another run is writing into it") != std::string::npos);
  fs::rename("out", "moved");
  fs::create_directories("out");
  std::ofstream("out/notes.txt") << "mine";
  CHECK_THROWS_WITH_AS(folder.restore(), "out: the folder has been replaced by one with other files",
                       std::runtime_error);
  fs::remove_all("out");
  { telemetry::run_folder({.out = "out"}, launch_time + 1s).write("model.safetensors", "another"); }
  CHECK_THROWS_WITH_AS(folder.restore(), "out: the folder has been replaced by that of another run",
                       std::runtime_error);
  CHECK(read("out/model.safetensors") == "another");
  fs::remove_all("out");
  fs::copy("moved", "out", fs::copy_options::recursive);  // as if it had been mounted again
  std::ofstream("out/model_best.safetensors") << "ours";
  CHECK(folder.restore());
}

TEST_CASE("event files are removed with the run that wrote them, and those of other programs are not") {
  const working_folder here;
  const fs::path events = "out/events.out.tfevents.1700000000.host";
  fs::create_directories("out");
  std::ofstream(events) << "of another program";
  CHECK(refusal({.out = "out", .overwrite = true}) == "accepted");
  CHECK(fs::exists(events));
  CHECK(refusal({.out = "out"}).find("but with an event file") != std::string::npos);
  CHECK(refusal({.out = "out", .overwrite = true}) == "accepted");
  CHECK(!fs::exists(events));
}

TEST_CASE("a folder into which a run is writing is refused to another, also with overwrite") {
  const working_folder here;
  const telemetry::run_folder folder({.out = "out"}, launch_time);
  CHECK(refusal({.out = "out", .overwrite = true}) ==
        "out: cannot write the results of the run to this folder: another run is writing into it; choose another "
        "folder with --out");
}

TEST_CASE("a run does not replace the very file it is made from") {
  const working_folder here;
  std::ofstream("topology.toml") << "# mine";
  CHECK(refusal({.out = ".", .topology = "topology.toml", .overwrite = true}).find("would be overwritten") !=
        std::string::npos);
  CHECK(read("topology.toml") == "# mine");
}

TEST_CASE("a folder that cannot be written is refused with path, reason and mend") {
  const working_folder here;
  std::ofstream("file") << "x";
  CHECK(refusal({.out = "file"}) ==
        "file: cannot write the results of the run to this folder: it is a file; choose another folder with --out");
  CHECK(refusal({.out = "file/below"}) ==
        "file/below: cannot write the results of the run to this folder: Not a directory; choose another folder with "
        "--out");
  const auto said = refusal({.out = "/proc/troupe"});
  CHECK(said.starts_with("/proc/troupe: cannot write the results of the run to this folder: "));
}

TEST_CASE("every line of the metrics has every key, and finite numbers only") {
  auto line = epoch_record(1, 937, 12.5, std::numeric_limits<double>::quiet_NaN());
  line.bytes_sent = 4096;
  line.train_accuracy = 0.5;
  CHECK(
      telemetry::json_line(line) ==
      R"({"event":"epoch","epoch":1,"step":937,"updates":0,"seconds":12.5,"train_seconds":12.25,)"
      R"("samples_per_second":1203.0,"train_loss":null,"train_accuracy":0.5,"val_loss":null,"val_accuracy":null,"val_top_k_accuracy":null,"val_accuracy_workers":null,"lr":0.05,)"
      R"("epoch_seconds":12.5,"epoch_train_loss":null,"data_wait":null,"train_loss_workers":null,"bytes_sent":4096,"staleness_mean":null,)"
      R"("staleness_max":null,"staleness_counts":null,"gradients_refused":null,"consensus_distance":null,)"
      R"("consensus_distance_before":null,"consensus_distance_after":null,"consensus_distance_max":null,"status":null,)"
      R"("stopped_by":null,"steered":null,"origin":null,"changed":null})");
  CHECK(nlohmann::json::parse(telemetry::json_line(of_event("end")))["status"] == "done");
}

TEST_CASE("the first line of the metrics tells when a run was begun, and with what") {
  const telemetry::origin about{.begun = "2025-11-24T09:30:07Z",
                                .seed = 7,
                                .troupe = "1.2.3",
                                .libtorch = "2.11.0",
                                .cpu = "A processor",
                                .cpu_capability = "AVX2"};
  const auto start = telemetry::json_line(of_event("start"), about);
  CHECK(nlohmann::json::parse(start)["origin"] == nlohmann::json{{"begun", "2025-11-24T09:30:07Z"},
                                                                 {"seed", 7},
                                                                 {"troupe", "1.2.3"},
                                                                 {"libtorch", "2.11.0"},
                                                                 {"cpu", "A processor"},
                                                                 {"cpu_capability", "AVX2"}});
  CHECK(nlohmann::json::parse(telemetry::json_line(of_event("end"), about))["origin"].is_null());
  CHECK(telemetry::begun_in(start) == "2025-11-24T09:30:07Z");
  for (const auto* text : {"", "[]", "{", R"({"event":"start"})", R"({"event":"start","origin":{"begun":3}})",
                           R"({"event":3,"origin":{"begun":"x"}})"})
    CHECK(telemetry::begun_in(text).empty());
  CHECK(about.text() == "begun 2025-11-24 09:30 UTC; seed 7; Troupe 1.2.3, LibTorch 2.11.0; A processor, AVX2");
  auto continued = about;
  continued.continued = "2025-11-25T10:00:00Z";
  CHECK(continued.text().starts_with("begun 2025-11-24 09:30 UTC, continued 2025-11-25 10:00 UTC; seed 7"));
}

TEST_CASE("a journal leaves the files of the contract") {
  const working_folder here;
  topology::topology file;
  file.file = "ring.toml";
  file.run.epochs = 1;
  file.data.name = "mnist";
  file.workers = {.count = 1, .loop = {"gradient", "apply"}, .device = {"cpu"}};
  const auto plan = make_plan(file, 64);
  std::ostringstream lines;
  telemetry::make_way_for(pattern_option::csv, "times/of.csv", false, "results", "t.toml");
  telemetry::file_journal journal(
      plan, telemetry::run_folder({.out = "out"}), telemetry::make_json_display({}, lines),
      {.beside = {{pattern_option::csv, "times/of.csv"}, {pattern_option::epoch_log, "times/of.txt"}},
       .drawing = [](const troupe::plan&) { return "<svg/>"; }});
  CHECK(fs::exists("out/topology.toml"));
  journal.write(of_event("start"));
  CHECK(read("out/graph.svg") == "<svg/>");
  journal.progress(1);
  journal.write(evaluation_record(1, 2, 0.5, 0.5));
  CHECK(read("out/epochs.csv") == telemetry::csv_header() + "\n");
  journal.write(epoch_record(1, 2, 0.5, 0.25, 0.5));
  CHECK(read("out/epochs.csv") == telemetry::csv_header() + "\n1,2,0.5,1203.0,0.25,0.25,0.5,0,0.5,0.05,0.25,,0.25\n");
  CHECK(read("times/of.csv") == "time,val_accuracy\n0.0,0.0\n0.2,0.5\n");  // rounds half to even, as Python does
  CHECK(read("times/of.txt") == "1  0.25  0.2500  50.00\n");
  journal.keep({.origin = {}, .values = at::ones({plan.layout.total})});
  const snapshot diverged{.origin = {},
                          .values = at::full({plan.layout.total}, std::numeric_limits<double>::infinity())};
  CHECK_THROWS_WITH_AS(journal.save(diverged),
                       doctest::Contains("the final weights contain values that are not finite"), std::runtime_error);
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
    telemetry::path_of(pattern_option::csv, pattern, plan);
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
  CHECK(telemetry::path_of(pattern_option::csv, "{ranks}ranks-{batch}bs-{lr}lr-{momentum}m-{warmup}w.csv", plan) ==
        "4ranks-16bs-0.1lr-0.9m-5w.csv");
  CHECK(telemetry::path_of(pattern_option::csv, "of/{model}-{data}-{optimizer}-{seed}-{epochs}", plan) ==
        "of/convnet-mnist-sgd-7-3");
  CHECK(telemetry::path_of(pattern_option::csv, "plain.csv", plan) == "plain.csv");
  CHECK(refusal_of("{rank}.csv", plan) ==
        "--csv \"{rank}.csv\": unknown placeholder {rank}; expected {ranks}, {batch}, {lr}, {momentum}, {warmup}, "
        "{seed}, "
        "{epochs}, {model}, {data} or {optimizer} (did you mean \"ranks\"?)");
  for (const auto* pattern : {"{", "}", "{ranks", "ranks}", "{{ranks}}", "{ranks}}"})
    CHECK(refusal_of(pattern, plan).find("unmatched brace; expected") != std::string::npos);
}

TEST_CASE("a file of an option replaces another one only where that is allowed") {
  const working_folder here;
  const auto make_way = [](const fs::path& path, bool overwrite, pattern_option option = pattern_option::csv) {
    telemetry::make_way_for(option, path, overwrite, "results", "t.toml");
  };
  make_way("deep/er/times.csv", false);
  std::ofstream("deep/er/times.csv") << "old";
  CHECK_NOTHROW(make_way("deep/er/times.csv", true));
  CHECK_THROWS_AS(make_way("deep/er/times.csv", false), input_error);
  CHECK_THROWS_AS(make_way("deep/er", true), input_error);
  CHECK_THROWS_AS(make_way("deep/er/times.csv/below.csv", true), input_error);
  for (const auto* own : {"results/metrics.jsonl", "results/model.safetensors", "results/epochs.csv"})
    for (const auto option : {pattern_option::csv, pattern_option::epoch_log})
      CHECK_THROWS_AS(make_way(own, true, option), input_error);
  CHECK_NOTHROW(make_way("results/times.csv", true));
  CHECK_NOTHROW(make_way("results/log.txt", true, pattern_option::epoch_log));
  CHECK_THROWS_WITH_AS(
      make_way("results/log", true, pattern_option::epoch_log),
      "results/log: the file is in the results folder; expected a name that ends in .txt or .log there", input_error);
  CHECK_THROWS_WITH_AS(make_way("deep/er/times.csv", false, pattern_option::epoch_log),
                       "deep/er/times.csv: the file already exists; replace it with --overwrite, or choose another "
                       "file with --epoch-log",
                       input_error);
  std::ofstream("t.toml") << "";
  CHECK_THROWS_AS(make_way("./t.toml", true), input_error);
}

// Each as Python prints repr(round(value, digits)).
TEST_CASE("numbers are rounded and printed as Python does") {
  using telemetry::as_python_rounds;
  CHECK(as_python_rounds(0, 1) == "0.0");
  CHECK(as_python_rounds(12, 1) == "12.0");
  CHECK(as_python_rounds(0.25, 1) == "0.2");
  CHECK(as_python_rounds(0.75, 1) == "0.8");
  CHECK(as_python_rounds(0.35, 1) == "0.3");  // slightly below 0.35 in binary
  CHECK(as_python_rounds(0.45, 1) == "0.5");  // slightly above
  CHECK(as_python_rounds(2.675, 2) == "2.67");
  CHECK(as_python_rounds(1234.0625, 3) == "1234.062");
  CHECK(as_python_rounds(99.96, 1) == "100.0");
  CHECK(as_python_rounds(123456.78, 1) == "123456.8");
  CHECK(as_python_rounds(0.85, 4) == "0.85");
  CHECK(as_python_rounds(0.85125, 4) == "0.8512");
  CHECK(as_python_rounds(0.00005, 4) == "0.0001");
  CHECK(as_python_rounds(0.00004, 4) == "0.0");
  CHECK(as_python_rounds(1, 4) == "1.0");
}

TEST_CASE("the files of options take what is theirs of a run") {
  const auto csv = pattern_option::csv, log = pattern_option::epoch_log;
  auto evaluation = evaluation_record(1, 100, 12.3, 0.98765);
  evaluation.train_seconds = 11.25;
  CHECK(telemetry::beginning_of(csv) == "time,val_accuracy\n0.0,0.0\n");
  CHECK(telemetry::addition_of(csv, evaluation) == "11.2,0.9877\n");
  evaluation.val_accuracy.reset();
  CHECK(telemetry::addition_of(csv, evaluation) == "11.2,\n");
  CHECK(telemetry::addition_of(log, evaluation).empty());
  auto epoch = epoch_record(12, 1200, 100, 0.5, 0.98765);
  CHECK(telemetry::beginning_of(log).empty());
  CHECK(telemetry::addition_of(log, epoch) == "12  99.75  0.5000  98.77\n");
  CHECK(telemetry::addition_of(csv, epoch).empty());
  epoch.val_accuracy.reset();
  epoch.epoch_train_loss = std::numeric_limits<double>::infinity();
  CHECK(telemetry::addition_of(log, epoch) == "12  99.75  nan  nan\n");
  for (const auto* event : {"start", "end"})
    for (const auto option : {csv, log}) CHECK(telemetry::addition_of(option, of_event(event)).empty());
}

TEST_CASE("a table tells of each class, their means and the accuracy") {
  // 4 samples of a and 6 of b: 3 of a were classified as a, 4 of b as b.
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

}  // namespace telemetry_run_test
