#include "tests/support/doctest.hpp"

#include "troupe/runtime/checkpoint/read_checkpoint.hpp"
#include "troupe/runtime/telemetry/cut_back.hpp"
#include "troupe/runtime/telemetry/file_journal.hpp"
#include "troupe/runtime/telemetry/metrics.hpp"
#include "troupe/runtime/topology/error.hpp"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <unistd.h>

using namespace troupe;
using telemetry::pattern_option;
namespace fs = std::filesystem;

namespace {

struct scratch {
  fs::path folder = fs::temp_directory_path() / ("troupe-continue-" + std::to_string(::getpid()));
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

/// The journal of a run in the folder "out", and what it printed.
struct run {
  explicit run(bool continues = false, const files& beside = options,
               std::shared_ptr<durable_files> disk = std::make_shared<durable_files>())
      : book(tiny_plan(), telemetry::run_folder({.out = "out", .overwrite = true, .resume = continues}),
             telemetry::make_json_display(shown),
             {.beside = beside,
              .continues = continues,
              .about = checkpoint::manifest{},
              .warn = [this](const std::string& text) { said += text; },
              .disk = std::move(disk)}) {}

  void epoch(std::uint64_t step, double accuracy) {
    book.write(line_of("evaluation", step, accuracy));
    book.write(line_of("epoch", step, accuracy));
  }
  void keep(double value) { book.keep({.origin = {}, .values = at::full({tiny_plan().layout.total}, value)}); }

  std::ostringstream shown;
  std::string said;
  telemetry::file_journal book;
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
files cut_back(const files& given = {}) {
  const auto from = checkpoint::read_newest(
      "out", [](const auto& about) { telemetry::check_outputs("out", about); }, [](const auto&) {});
  auto continued = telemetry::continued_files("out", from.about, given);
  telemetry::cut_back("out", from.folder, from.about, continued);
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

/// A run with a checkpoint after two epochs that goes on for a third, and the files at the checkpoint.
std::map<std::string, std::string> interrupted_run() {
  run first;
  first.book.write(line_of("start", 0));
  first.epoch(1, 0.5);
  first.keep(1);
  first.epoch(2, 0.75);
  first.book.checkpoint({.step = 2, .actors = {}}, true);
  CHECK(first.said.empty());
  auto then = contents();
  first.keep(2);
  first.epoch(3, 0.875);
  first.book.save({.origin = {}, .values = at::zeros({tiny_plan().layout.total})});
  first.book.write(line_of("end", 3));
  return then;
}

}  // namespace

TEST_CASE("a run that is continued has the outputs that it had at the checkpoint, and adds to them") {
  const scratch here;
  const auto then = interrupted_run();
  CHECK(contents() != then);
  const auto files = cut_back();
  CHECK(contents() == then);
  CHECK(files.size() == 2);
  cut_back();  // a run that is killed while it is cut back
  CHECK(contents() == then);
  {
    run second(true, files);
    CHECK(contents() == then);
    second.book.write(line_of("resume", 2));
    second.epoch(3, 0.875);
    second.keep(2);
    CHECK(second.book.status().empty());
    second.book.write(line_of("end", 3));
    CHECK(second.book.status() == "interrupted");
  }
  const auto now = contents();
  CHECK(now.at("out/metrics.jsonl") == then.at("out/metrics.jsonl") + telemetry::json_line(line_of("resume", 2)) +
                                           "\n" + telemetry::json_line(line_of("evaluation", 3, 0.875)) + "\n" +
                                           telemetry::json_line(line_of("epoch", 3, 0.875)) + "\n" +
                                           telemetry::json_line(line_of("end", 3)) + "\n");
  CHECK(now.at("out/epochs.csv") == then.at("out/epochs.csv") + telemetry::csv_line(line_of("epoch", 3, 0.875)) + "\n");
  CHECK(now.at("of.csv") == "time,val_accuracy\n0.0,0.0\n1.0,0.5\n2.0,0.75\n3.0,0.875\n");
  CHECK(now.at("of.txt") == then.at("of.txt") + "3  3.00  nan  87.50\n");
  // The best weights of the checkpoint share a file with those that were put back; neither is written in place.
  CHECK(read("out/checkpoints/step-000000000002/model_best.safetensors") == then.at("out/model_best.safetensors"));
  CHECK(now.at("out/model_best.safetensors") != then.at("out/model_best.safetensors"));
}

TEST_CASE("best weights that are newer than the checkpoint are removed") {
  const scratch here;
  {
    run first;
    first.book.write(line_of("start", 0));
    first.book.checkpoint({.step = 1, .actors = {}}, true);
    first.keep(1);
  }
  CHECK(fs::exists("out/model_best.safetensors"));
  cut_back();
  CHECK(!fs::exists("out/model_best.safetensors"));
}

TEST_CASE("a continued run that fails states the time of all its parts") {
  const scratch here;
  {
    run failing(false, {});
    auto line = line_of("resume", 2);
    line.seconds = 1000;
    failing.book.write(line);
  }
  const auto text = read("out/metrics.jsonl");
  const auto at = text.rfind("\"seconds\":");
  CHECK(std::stod(text.substr(at + 10)) >= 1000);
  CHECK(text.find("\"failed\"") != std::string::npos);
}

TEST_CASE("outputs that are shorter than at the checkpoint rule it out") {
  for (const std::string name : {"metrics.jsonl", "epochs.csv"}) {
    const scratch here;
    interrupted_run();
    const auto about = checkpoint::read_manifest("out/checkpoints/step-000000000002");
    const auto path = "out/" + name;
    const auto size = about.outputs.at(name);
    fs::resize_file(path, size - 1);
    const auto said = [&] {
      try {
        telemetry::check_outputs("out", about);
      } catch (const checkpoint::damaged& reason) {
        return std::string(reason.what());
      }
      return std::string("accepted");
    };
    CHECK(said() == path + " has " + std::to_string(size - 1) + " bytes, but had " + std::to_string(size) +
                        " when the checkpoint was written");
    fs::rename(path, "elsewhere");
    CHECK(said() == path + " is missing or not a regular file");
    fs::create_symlink(fs::absolute("elsewhere"), path);
    CHECK(said() == path + " is missing or not a regular file");
  }
}

TEST_CASE("a file of an option is cut only if it is the one that the run has written") {
  const scratch here;
  interrupted_run();
  const auto path = fs::absolute("of.csv").string();
  const auto whole = read(path);
  const auto said = [](const files& given = {}) { return refusal([&] { cut_back(given); }); };
  const auto becomes = [&](const std::string& text) { std::ofstream(path, std::ios::trunc) << text; };
  becomes(whole + "rm -rf\n");  // not lines of such a file
  CHECK(said().starts_with(path + ": the file has other contents"));
  CHECK(read(path) == whole + "rm -rf\n");
  becomes("T" + whole.substr(1));
  CHECK(said().starts_with(path + ": the file has other contents"));
  becomes(whole.substr(0, 20));
  CHECK(said().starts_with(path + ": the file has 20 bytes, but had 43 when"));
  fs::remove(path);
  CHECK(said().starts_with(path + ": the file is missing; --csv of a continued run needs"));
  std::ofstream("moved.csv") << whole;
  CHECK(said({{pattern_option::csv, "moved.csv"}}) == "accepted");
  CHECK(read("moved.csv") == "time,val_accuracy\n0.0,0.0\n1.0,0.5\n2.0,0.75\n");
}

TEST_CASE("an option that the run was started without is refused") {
  const scratch here;
  {
    run first(false, {});
    first.book.write(line_of("start", 0));
    first.book.checkpoint({.step = 1, .actors = {}}, true);
  }
  CHECK(refusal([] {
          cut_back({{pattern_option::csv, "new.csv"}});
        }) == "new.csv: the run to continue was started without --csv; remove the option");
  CHECK(cut_back().empty());
}

TEST_CASE("a checkpoint that cannot be written is a warning, and the journal goes on") {
  struct full_disk : durable_files {
    void write(const fs::path& path, const std::vector<std::string_view>&) override {
      throw std::runtime_error("cannot write " + path.string() + ": No space left on device");
    }
  };
  const scratch here;
  run first(false, {}, std::make_shared<full_disk>());
  first.book.write(line_of("start", 0));
  first.book.checkpoint({.step = 3, .actors = {}}, true);
  CHECK(first.said ==
        "warning: the checkpoint of step 3 is not complete: cannot write "
        "out/checkpoints/.step-000000000003.tmp/manifest.json: No space left on device; the run continues, and earlier "
        "ones remain");
  CHECK(fs::is_empty("out/checkpoints"));
  first.book.write(line_of("end", 4));
}

TEST_CASE("a best result that cannot be written is a warning, and is written at the end") {
  const scratch here;
  run first(false, {});
  first.book.write(line_of("start", 0));
  const snapshot best{.origin = {}, .values = at::ones({tiny_plan().layout.total})};
  fs::create_directories("out/model_best.safetensors");  // in its place
  first.book.keep(best);
  CHECK(first.said.find("warning: the best result so far is not saved: cannot write out/model_best.safetensors: ") ==
        0);
  CHECK_THROWS_AS(first.book.save(best), std::runtime_error);
  fs::remove("out/model_best.safetensors");
  first.book.save(best);
  CHECK(read("out/model_best.safetensors") == read("out/model.safetensors"));
}

TEST_CASE("a run with checkpoints is not replaced by accident") {
  const scratch here;
  interrupted_run();
  fs::remove("out/model.safetensors");
  const auto open = [](bool overwrite, bool resume) {
    return refusal(
        [&] { const telemetry::run_folder folder({.out = "out", .overwrite = overwrite, .resume = resume}); });
  };
  CHECK(open(false, false) ==
        "out: the folder contains a run with checkpoints; continue it with --resume, replace it with --overwrite, or "
        "choose another folder with --out");
  const auto before = contents();
  CHECK(open(false, true) == "accepted");
  CHECK(contents() == before);
  CHECK(open(true, false) == "accepted");
  CHECK(fs::is_empty("out"));
  fs::remove("out");
  CHECK(open(false, true) == "out: the folder does not exist; expected the results folder of the run to continue");
}

TEST_CASE("the end of a run is read from its metrics if its result was saved") {
  const scratch here;
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
