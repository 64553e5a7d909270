// troupe run FILE: trains.
#include "troupe/apps/commands.hpp"
#include "troupe/runtime/node/launcher.hpp"
#include "troupe/runtime/node/node.hpp"
#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/telemetry/display.hpp"
#include "troupe/runtime/telemetry/file_journal.hpp"
#include "troupe/runtime/telemetry/run_folder.hpp"
#include "troupe/runtime/topology/load.hpp"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace troupe::apps {

namespace {

struct options {
  std::filesystem::path file;
  std::filesystem::path out;
  std::vector<std::string> overrides;
  bool overwrite{false}, quiet{false}, json{false};
};

int run_topology(const options& given) {
  using namespace telemetry;
  signal_watch signals;  // first of all: threads inherit the signals it blocks
  const auto topology = topology::load(given.file, given.overrides);
  const auto data = load_data(topology);
  const auto plan = make_plan(topology, data.train->size());
  models::buffer_pool pool;
  auto initial = initial_weights(plan, pool);
  run_folder folder{{.out = given.out, .topology = given.file, .overwrite = given.overwrite}};
  const auto where = folder.path().string();
  const auto how = given.json ? verbosity::json : given.quiet ? verbosity::quiet : verbosity::normal;
  auto book = std::make_shared<file_journal>(plan, std::move(folder), make_display(how, shape_of(plan, where)));

  const auto end = run(plan, data, std::move(initial), std::move(pool), std::move(book), signals);
  if (end.failure) std::fprintf(stderr, "error: the run failed: %s\n", end.failure->c_str());
  return end.status();
}

}  // namespace

void add_run(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("run", "Train a model as a topology file says");
  auto given = std::make_shared<options>();
  command->add_option("FILE", given->file, "Topology file")->required();
  command->add_option("--set", given->overrides, "section.key=value: overrides the file; repeatable")
      ->allow_extra_args(false);
  command->add_option("--out", given->out, "Folder for the results (default: runs/<file>-<UTC time>)");
  command->add_flag("--overwrite", given->overwrite, "Replace a finished run in that folder");
  command->add_flag("--quiet", given->quiet, "Print errors only");
  command->add_flag("--json", given->json, "Print the lines of metrics.jsonl");
  command->callback([given, &status] { status = run_topology(*given); });
}

}  // namespace troupe::apps
