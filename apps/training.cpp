#include "troupe/apps/training.hpp"

#include "troupe/apps/messages.hpp"
#include "troupe/runtime/node/launcher.hpp"
#include "troupe/runtime/node/local_nodes.hpp"
#include "troupe/runtime/node/node.hpp"
#include "troupe/runtime/telemetry/display.hpp"
#include "troupe/runtime/telemetry/file_journal.hpp"
#include "troupe/runtime/telemetry/pattern_files.hpp"
#include "troupe/runtime/telemetry/run_folder.hpp"
#include "troupe/runtime/topology/error.hpp"
#include "troupe/runtime/topology/load.hpp"

#include <CLI/CLI.hpp>

#include <filesystem>
#include <map>
#include <memory>
#include <utility>

namespace troupe::apps {

void add_training_options(CLI::App& command, training_options& given) {
  command.add_option("FILE", given.file, "Topology file")->required();
  command
      .add_option("--set", given.overrides,
                  "Override a key of the topology file, given as section.key=value; repeatable")
      ->allow_extra_args(false);
  command.add_option("--out", given.out, "Folder for the results (default: runs/<file>-<UTC time>)");
  command.add_option(
      "--csv", given.csv,
      "Also write the training time and validation accuracy of each evaluation to this CSV file; the name may "
      "contain placeholders, such as '{ranks}ranks-{batch}bs-{lr}lr.csv'");
  command.add_option(
      "--epoch-log", given.epoch_log,
      "Also write the number, training time, training loss and validation accuracy of each epoch to this text "
      "file; the name may contain placeholders, such as '{ranks}ranks.txt'");
  command.add_flag("--overwrite", given.overwrite,
                   "Replace a finished run in the results folder, and the files of --csv and --epoch-log");
  command.add_flag("--quiet", given.quiet, "Print errors only");
  command.add_flag("--json", given.json, "Print the lines of metrics.jsonl instead of progress");
}

namespace {

/// Returns the paths of the files that options request. Throws input_error.
std::map<telemetry::pattern_option, std::filesystem::path> files_of_options(const training_options& given,
                                                                            const plan& plan) {
  using telemetry::pattern_option;
  std::map<pattern_option, std::filesystem::path> files;
  for (const auto& [option, pattern] :
       {std::pair{pattern_option::csv, given.csv}, std::pair{pattern_option::epoch_log, given.epoch_log}})
    if (!pattern.empty()) files.emplace(option, telemetry::path_of(option, pattern, plan));
  const auto full = [](const std::filesystem::path& path) { return std::filesystem::weakly_canonical(absolute(path)); };
  if (files.size() == 2 && full(files.begin()->second) == full(files.rbegin()->second))
    throw input_error(files.begin()->second.string() +
                      ": both --csv and --epoch-log name this file; expected two different files");
  return files;
}

}  // namespace

training prepare(const training_options& given) {
  const auto topology = topology::load(given.file, given.overrides);
  auto data = load_data(topology);
  auto plan = make_plan(topology, data_facts(data, topology));
  check_one_host(plan);
  files_of_options(given, plan);  // what is wrong with them is found before any node is started
  return {std::move(data), std::move(plan)};
}

int train(const training_options& given, training&& what, std::uint32_t node, signal_watch& signals) {
  using namespace telemetry;
  node_options options{.node = node, .together = given.together};
  options.initial = initial_weights(what.plan, options.pool);
  if (node == 0)
    options.open_book = [&] {
      run_folder folder{{.out = given.out, .topology = given.file, .overwrite = given.overwrite}};
      const auto where = folder.path().string();
      const auto files = files_of_options(given, what.plan);
      for (const auto& [option, path] : files) make_way_for(option, path, given.overwrite, folder.path(), given.file);
      const auto how = given.json ? verbosity::json : given.quiet ? verbosity::quiet : verbosity::normal;
      return std::make_shared<file_journal>(what.plan, std::move(folder), make_display(how, shape_of(what.plan, where)),
                                            files);
    };
  if (!given.quiet) options.say = print_note;
  if (!given.quiet && node == 0) {
    for (const auto& note : what.plan.notes) options.say(note);
    for (const auto& warning : what.plan.warnings) options.say("warning: " + warning);
  }

  const auto end = run(what.plan, what.data, std::move(options), signals);
  if (end.refusal) print_error("this node cannot take part in the run: " + *end.refusal);
  if (end.failure) print_error("the run failed: " + *end.failure);
  return end.status();
}

}  // namespace troupe::apps
