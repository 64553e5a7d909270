#include "tests/support/doctest.hpp"
#include "tests/support/full_disk.hpp"
#include "tests/support/scratch.hpp"

#include "troupe/files/error.hpp"
#include "troupe/runtime/checkpoint/read_checkpoint.hpp"
#include "troupe/runtime/telemetry/cut_back.hpp"
#include "troupe/runtime/telemetry/file_journal.hpp"
#include "troupe/runtime/telemetry/metrics.hpp"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <unistd.h>

namespace telemetry_continue_test {

using namespace troupe;
using testing::read;
using testing::working_folder;
using namespace std::chrono_literals;
using telemetry::pattern_option;
namespace fs = std::filesystem;

namespace {

const plan& tiny_plan() {
  static const plan made = [] {
    topology::topology file;
    file.file = "one.toml";
    file.run.epochs = 1;
    file.data.name = "mnist";
    file.workers = {.count = 1, .loop = {"gradient", "apply"}, .device = {"cpu"}};
    file.checkpoint.every = {1, true};
    return make_plan(file, 64);
  }();
  return made;
}

record line_of(const std::string& event, std::uint64_t step, std::optional<double> accuracy = {}) {
  record line;
  line.event = event;
  line.epoch = line.step = step;
  line.seconds = line.train_seconds = static_cast<double>(step);
  line.val_accuracy = accuracy;
  if (event == "end") line.status = "interrupted";
  return line;
}

using files = std::map<pattern_option, fs::path>;
const files options{{pattern_option::csv, "of.csv"}, {pattern_option::epoch_log, "of.txt"}};

/// The journal of a run in the folder "out", and its messages.
struct run {
  explicit run(bool continues = false, const files& beside = options,
               std::shared_ptr<durable_files> disk = std::make_shared<durable_files>())
      : journal(tiny_plan(), telemetry::run_folder({.out = "out", .overwrite = true, .resume = continues}),
                telemetry::make_json_display({}, shown),
                {.beside = beside,
                 .continues = continues,
                 .about = checkpoint::manifest{},
                 .drawing = [](const troupe::plan&) { return "<svg/>"; },
                 .outputs = std::make_shared<telemetry::side_outputs>(
                     telemetry::side_output_options{.warn = [this](const std::string& text) { said += text + '\n'; },
                                                    .now = [this] { return now; },
                                                    .wait = [this](auto time) { wait(time); }}),
                 .disk = std::move(disk)}) {}

  void epoch(std::uint64_t step, double accuracy) {
    journal.write(line_of("evaluation", step, accuracy));
    journal.write(line_of("epoch", step, accuracy));
  }
  void keep(double value) { journal.keep({.origin = {}, .values = at::full({tiny_plan().layout.total}, value)}); }

  void wait(std::chrono::milliseconds time) {
    now += time;
    if (before_wait) before_wait();
  }

  std::ostringstream shown;
  std::string said;
  std::chrono::nanoseconds now{0};
  std::function<void()> before_wait;
  std::optional<testing::full_disk> room{};  ///< If set, nothing can be written.
  telemetry::file_journal journal;
};

/// All files that are cut back.
std::map<std::string, std::string> contents() {
  std::map<std::string, std::string> all;
  for (const auto* name : {"out/metrics.jsonl", "out/epochs.csv", "out/model_best.safetensors", "out/model.safetensors",
                           "of.csv", "of.txt"})
    if (fs::exists(name)) all[name] = read(name);
  return all;
}

/// Cuts the run in "out" back to its newest checkpoint.
files cut_back(const files& given = {}, std::string* said = nullptr) {
  const auto from = checkpoint::read_newest("out", [](const auto&) {});
  auto continued = telemetry::continued_files("out", from.about, given);
  telemetry::cut_back("out", from.folder, from.about, continued, [said](const std::string& text) {
    if (said != nullptr) *said += text + '\n';
  });
  return continued;
}

std::string refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const input_error& reason) {
    return reason.what();
  }
  return "accepted";
}

/// Runs three epochs with a checkpoint after the second one. Returns the files at the checkpoint.
std::map<std::string, std::string> interrupted_run() {
  run first;
  first.journal.write(line_of("start", 0));
  first.epoch(1, 0.5);
  first.keep(1);
  first.epoch(2, 0.75);
  first.journal.checkpoint({.step = 2, .actors = {}}, true);
  CHECK(first.said.empty());
  auto then = contents();
  first.keep(2);
  first.epoch(3, 0.875);
  first.journal.save({.origin = {}, .values = at::zeros({tiny_plan().layout.total})});
  first.journal.write(line_of("end", 3));
  return then;
}

}  // namespace

TEST_CASE("a run that is continued has the outputs that it had at the checkpoint, and adds to them") {
  const working_folder here;
  const auto then = interrupted_run();
  CHECK(contents() != then);
  const auto files = cut_back();
  CHECK(contents() == then);
  CHECK(files.size() == 2);
  cut_back();  // a run that is killed while its outputs are cut back
  CHECK(contents() == then);
  {
    run second(true, files);
    CHECK(contents() == then);
    second.journal.write(line_of("resume", 2));
    second.epoch(3, 0.875);
    second.keep(2);
    CHECK(second.journal.status().empty());
    second.journal.write(line_of("end", 3));
    CHECK(second.journal.status() == "interrupted");
  }
  const auto now = contents();
  CHECK(now.at("out/metrics.jsonl") == then.at("out/metrics.jsonl") + telemetry::json_line(line_of("resume", 2)) +
                                           "\n" + telemetry::json_line(line_of("evaluation", 3, 0.875)) + "\n" +
                                           telemetry::json_line(line_of("epoch", 3, 0.875)) + "\n" +
                                           telemetry::json_line(line_of("end", 3)) + "\n");
  CHECK(now.at("out/epochs.csv") == then.at("out/epochs.csv") + telemetry::csv_line(line_of("epoch", 3, 0.875)) + "\n");
  CHECK(now.at("of.csv") == "time,val_accuracy\n0.0,0.0\n1.0,0.5\n2.0,0.75\n3.0,0.875\n");
  CHECK(now.at("of.txt") == then.at("of.txt") + "3  3.00  nan  87.50\n");
  // The best weights of the checkpoint share a file with the restored ones. Neither is overwritten in place.
  CHECK(read("out/checkpoints/step-000000000002/model_best.safetensors") == then.at("out/model_best.safetensors"));
  CHECK(now.at("out/model_best.safetensors") != then.at("out/model_best.safetensors"));
}

TEST_CASE("best weights that are newer than the checkpoint are removed") {
  const working_folder here;
  {
    run first;
    first.journal.write(line_of("start", 0));
    first.journal.checkpoint({.step = 1, .actors = {}}, true);
    first.keep(1);
  }
  CHECK(fs::exists("out/model_best.safetensors"));
  cut_back();
  CHECK(!fs::exists("out/model_best.safetensors"));
}

TEST_CASE("a continued run that fails states the time of all its parts") {
  const working_folder here;
  {
    run failing(false, {});
    auto line = line_of("resume", 2);
    line.seconds = 1000;
    failing.journal.write(line);
  }
  const auto text = read("out/metrics.jsonl");
  const auto at = text.rfind("\"seconds\":");
  CHECK(std::stod(text.substr(at + 10)) >= 1000);
  CHECK(text.find("\"failed\"") != std::string::npos);
}

TEST_CASE("a run whose metrics are gone, or are another file, continues from its weights") {
  for (const std::string what : {"missing", "shorter", "other", "a folder"}) {
    CAPTURE(what);
    const working_folder here;
    const auto then = interrupted_run();
    const auto whole = read("out/metrics.jsonl");
    std::string stranger;
    fs::remove("out/metrics.jsonl");
    if (what == "shorter") stranger = whole.substr(0, 30);
    if (what == "other") stranger = "X" + whole.substr(1);
    if (what == "a folder")
      fs::create_directories("out/metrics.jsonl");
    else if (what != "missing")
      std::ofstream("out/metrics.jsonl") << stranger;
    const auto weights = read("out/model.safetensors");
    std::string said;
    const auto continued = cut_back({}, &said);
    const auto now = contents();
    CHECK(now.at("out/metrics.jsonl").empty());
    for (const auto* same : {"out/epochs.csv", "of.csv", "of.txt", "out/model_best.safetensors"})
      CHECK(now.at(same) == then.at(same));
    CHECK(said.find("the metrics of the steps before 2 are missing in out/metrics.jsonl") != std::string::npos);
    CHECK(read("out/model.safetensors.other") == weights);  // it may belong to another run
    if (what == "missing") continue;
    CHECK(said.find("out/metrics.jsonl is not the file that this run has written; it is kept as "
                    "out/metrics.jsonl.other\n") != std::string::npos);
    if (what != "a folder") CHECK(read("out/metrics.jsonl.other") == stranger);
    run again(true, continued);
    again.journal.write(line_of("resume", 2));
    CHECK(read("out/metrics.jsonl") == telemetry::json_line(line_of("resume", 2)) + "\n");
  }
}

TEST_CASE("outputs that can be made from the metrics are, if they are gone") {
  for (const bool replaced : {false, true}) {
    const working_folder here;
    const auto then = interrupted_run();
    for (const auto* name : {"of.csv", "of.txt", "out/epochs.csv"}) fs::remove(name);
    if (replaced) std::ofstream("out/epochs.csv") << std::string(1000, 'x');
    std::string said;
    cut_back({}, &said);
    CHECK(contents() == then);
    CHECK(said.find("of.csv is missing, and is written again\n") != std::string::npos);
    CHECK(fs::exists("out/epochs.csv.other") == replaced);
  }
}

TEST_CASE("what is kept of files of others never replaces anything") {
  const working_folder here;
  interrupted_run();
  std::ofstream("out/metrics.jsonl.other") << "first";
  for (const std::string text : {"second", "third"}) {
    std::ofstream("out/metrics.jsonl", std::ios::trunc) << text;
    cut_back();
  }
  CHECK(read("out/metrics.jsonl.other") == "first");
  CHECK(read("out/metrics.jsonl.other-2") == "second");
  CHECK(read("out/metrics.jsonl.other-3") == "third");
}

TEST_CASE("a checkpoint of an earlier version has sizes only, which then decide") {
  const working_folder here;
  const auto then = interrupted_run();
  auto from = checkpoint::read_newest("out", [](const auto&) {});
  for (auto& [name, sealed] : from.about.outputs) sealed.sha256.clear();
  CHECK(checkpoint::parse_manifest(checkpoint::text_of(from.about)) == from.about);
  telemetry::cut_back("out", from.folder, from.about, options, [](const auto& text) { FAIL(text); });
  CHECK(contents() == then);
}

TEST_CASE("a file of an option is cut only if it is the one that the run has written") {
  const working_folder here;
  interrupted_run();
  const auto path = fs::absolute("of.csv").string();
  const auto whole = read(path);
  const auto said = [](const files& given = {}) { return refusal([&] { cut_back(given); }); };
  const auto becomes = [&](const std::string& text) { std::ofstream(path, std::ios::trunc) << text; };
  becomes(whole + "rm -rf\n");  // these are not lines of such a file
  CHECK(said().starts_with(path + ": the file has other contents"));
  CHECK(read(path) == whole + "rm -rf\n");
  becomes("T" + whole.substr(1));
  CHECK(said().starts_with(path + ": the file has other contents"));
  becomes(whole.substr(0, 20));
  CHECK(said().starts_with(path + ": the file has 20 bytes, but had 43 when"));
  fs::remove(path);
  fs::create_directories(path);
  CHECK(said().starts_with(path + ": it is not a regular file; --csv of a continued run needs"));
  fs::remove(path);
  std::ofstream("moved.csv") << whole;
  CHECK(said({{pattern_option::csv, "moved.csv"}}) == "accepted");
  CHECK(read("moved.csv") == "time,val_accuracy\n0.0,0.0\n1.0,0.5\n2.0,0.75\n");
}

TEST_CASE("an option that the run was started without is refused") {
  const working_folder here;
  {
    run first(false, {});
    first.journal.write(line_of("start", 0));
    first.journal.checkpoint({.step = 1, .actors = {}}, true);
  }
  CHECK(refusal([] {
          cut_back({{pattern_option::csv, "new.csv"}});
        }) == "new.csv: the run to continue was started without --csv; remove the option");
  CHECK(cut_back().empty());
}

TEST_CASE("checkpoints that cannot be written are one warning, and the journal goes on") {
  struct small_disk : durable_files {
    void write(const fs::path& path, const std::vector<std::string_view>& pieces) override {
      if (full) throw std::runtime_error("cannot write " + path.string() + ": No space left on device");
      durable_files::write(path, pieces);
    }
    bool full{true};
  };
  const working_folder here;
  const auto disk = std::make_shared<small_disk>();
  run first(false, {}, disk);
  first.journal.write(line_of("start", 0));
  for (const std::uint64_t step : {3, 4, 5}) first.journal.checkpoint({.step = step, .actors = {}}, true);
  CHECK(first.said ==
        "warning: the checkpoint of step 3 is not complete: cannot write "
        "out/checkpoints/.step-000000000003.tmp/manifest.json: No space left on device; the run continues, and earlier "
        "ones remain\n");
  CHECK(fs::is_empty("out/checkpoints"));
  disk->full = false;
  first.said.clear();
  for (const std::uint64_t step : {6, 7}) first.journal.checkpoint({.step = step, .actors = {}}, true);
  CHECK(first.said == "checkpoints are written again: that of step 6 is complete\n");
  first.journal.write(line_of("end", 8));
}

TEST_CASE("a disk that is full for a while costs two lines, and nothing else") {
  const working_folder here;
  const auto record_all = [](run& one, bool interrupted) {
    one.journal.write(line_of("start", 0));
    one.epoch(1, 0.5);
    if (interrupted) one.room.emplace();
    one.keep(1);
    one.epoch(2, 0.75);
    one.keep(2);
    one.epoch(3, 0.875);
    if (interrupted) {
      CHECK(read("out/metrics.jsonl").ends_with("}\n"));  // a reader that follows the file sees whole lines
      CHECK(one.said ==
            "warning: cannot write out/model_best.safetensors: File too large; the run continues, and tries "
            "again\n");
      one.journal.progress(3);  // too soon
      one.now += 2s;
      one.journal.progress(3);
      CHECK(!fs::exists("out/model_best.safetensors"));
      one.room.reset();
      one.now += 2s;
      one.journal.progress(3);
      CHECK(fs::exists("out/model_best.safetensors"));
      CHECK(one.said.substr(one.said.find('\n') + 1) ==
            "epochs.csv, metrics.jsonl, model_best.safetensors, of.csv and of.txt are written again\n");
    }
    one.journal.save({.origin = {}, .values = at::zeros({tiny_plan().layout.total})});
    one.journal.write(line_of("end", 3));
  };
  {
    run whole;
    record_all(whole, false);
  }
  const auto expected = contents();
  fs::remove_all("out");
  run one;
  record_all(one, true);
  CHECK(contents() == expected);
}

TEST_CASE("final weights come first, and wait for room") {
  const working_folder here;
  run one(false, {});
  one.journal.write(line_of("start", 0));
  // Room for the metrics, but not for weights.
  one.room.emplace(10'000);
  SUBCASE("that a limit of the process never gives: they are kept elsewhere") {
    ::setenv("TMPDIR", "/proc/nowhere", 1);
    CHECK_THROWS_WITH_AS(one.journal.save({.origin = {}, .values = at::zeros({tiny_plan().layout.total})}),
                         "cannot write out/model.safetensors: File too large; the final weights are lost",
                         std::runtime_error);
    ::unsetenv("TMPDIR");
  }
  SUBCASE("that comes while the run waits") {
    one.room.reset();
    fs::create_directories("out/model.safetensors/in the way");
    one.before_wait = [] { fs::remove_all("out/model.safetensors"); };
    one.journal.save({.origin = {}, .values = at::zeros({tiny_plan().layout.total})});
    CHECK(fs::is_regular_file("out/model.safetensors"));
    CHECK(one.said ==
          "warning: cannot write out/model.safetensors: Is a directory; these are the final weights: the run "
          "tries again for 30s\n");
  }
  SUBCASE("that does not come: they are in the folder for temporary files") {
    one.room.reset();
    fs::create_directories("out/model.safetensors/in the way");
    fs::create_directories("temporary");
    ::setenv("TMPDIR", fs::absolute("temporary").c_str(), 1);
    CHECK_THROWS_AS(one.journal.save({.origin = {}, .values = at::zeros({tiny_plan().layout.total})}),
                    std::runtime_error);
    ::unsetenv("TMPDIR");
    CHECK(one.now == 30s);
    CHECK(std::distance(fs::directory_iterator("temporary"), {}) == 1);
  }
}

TEST_CASE("outputs that are never written are named at the end, after a short wait") {
  const working_folder here;
  run one(false, {});
  one.journal.write(line_of("start", 0));
  fs::create_directories("out/epochs.csv.troupe-tmp");  // in place of the temporary file
  one.epoch(1, 0.5);
  one.journal.save({.origin = {}, .values = at::zeros({tiny_plan().layout.total})});
  one.said.clear();
  one.journal.write(line_of("end", 1));
  CHECK(one.now == 10s);
  CHECK(one.said ==
        "warning: not written, or not to the end: epochs.csv (cannot write out/epochs.csv: Is a directory)\n");
  CHECK(one.journal.status() == "interrupted");
}

TEST_CASE("a folder that is removed while the run goes on gets everything that is known") {
  const working_folder here;
  run one(false, {});
  one.journal.write(line_of("start", 0));
  one.epoch(1, 0.5);
  const auto before = contents();
  const auto drawing = read("out/graph.svg");
  SUBCASE("as a whole") {
    fs::remove_all("out");
  }
  SUBCASE("its metrics alone") {
    fs::remove("out/metrics.jsonl");
  }
  one.keep(1);
  one.epoch(2, 0.75);
  CHECK(read("out/metrics.jsonl").starts_with(before.at("out/metrics.jsonl")));
  CHECK(read("out/epochs.csv").starts_with(before.at("out/epochs.csv")));
  CHECK(read("out/graph.svg") == drawing);
  one.journal.checkpoint({.step = 2, .actors = {}}, true);
  CHECK(one.said.empty());
  cut_back();
}

TEST_CASE("a run with checkpoints is not replaced by accident") {
  const working_folder here;
  interrupted_run();
  fs::remove("out/model.safetensors");
  const auto open = [](bool overwrite, bool resume) {
    return refusal(
        [&] { const telemetry::run_folder folder({.out = "out", .overwrite = overwrite, .resume = resume}); });
  };
  CHECK(open(false, false) ==
        "out: the folder contains a run without model.safetensors, but with model_best.safetensors and checkpoints; "
        "continue it with --resume out, replace it with --overwrite, or choose another folder with --out");
  const auto before = contents();
  CHECK(open(false, true) == "accepted");
  CHECK(contents() == before);
  CHECK(open(true, false) == "accepted");
  CHECK(std::distance(fs::directory_iterator("out"), {}) == 1);  // its marker
  fs::remove_all("out");
  CHECK(open(false, true) == "out: the folder does not exist; expected the results folder of the run to continue");
}

TEST_CASE("the end of a run is read from its metrics if its result was saved") {
  const working_folder here;
  interrupted_run();
  const auto end = telemetry::end_of("out");
  REQUIRE(end);
  CHECK(end->status == "interrupted");
  CHECK(end->step == 3);
  const auto whole = read("out/metrics.jsonl");
  for (const std::string text : {"", "\n", "{\n", "3\n", "{\"event\": 3}\n", "{\"event\": \"end\"}\n",
                                 "{\"event\": \"end\", \"status\": 3, \"step\": 1}\n",
                                 "{\"event\": \"end\", \"status\": \"done\", \"step\": -1}\n"}) {
    std::ofstream("out/metrics.jsonl", std::ios::trunc) << text;
    CHECK(!telemetry::end_of("out"));
  }
  std::ofstream("out/metrics.jsonl", std::ios::trunc) << whole;
  fs::remove("out/model.safetensors");
  CHECK(!telemetry::end_of("out"));
}

}  // namespace telemetry_continue_test
