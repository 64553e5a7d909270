#include "troupe/apps/running/training.hpp"

#include "troupe/apps/console/messages.hpp"
#include "troupe/apps/running/recorded.hpp"
#include "troupe/apps/running/resume.hpp"
#include "troupe/apps/running/tracing.hpp"
#include "troupe/files/error.hpp"
#include "troupe/runtime/checkpoint/copy.hpp"
#include "troupe/runtime/checkpoint/folder.hpp"
#include "troupe/runtime/checkpoint/read_checkpoint.hpp"
#include "troupe/runtime/emulation/network.hpp"
#include "troupe/runtime/launch/channels_of_plan.hpp"
#include "troupe/runtime/launch/launcher.hpp"
#include "troupe/runtime/node/local_nodes.hpp"
#include "troupe/runtime/node/node.hpp"
#include "troupe/runtime/recording/beginning.hpp"
#include "troupe/runtime/recording/recordable.hpp"
#include "troupe/runtime/recording/writer.hpp"
#include "troupe/runtime/support/durable_files.hpp"
#include "troupe/runtime/telemetry/cut_back.hpp"
#include "troupe/runtime/telemetry/display.hpp"
#include "troupe/runtime/telemetry/file_journal.hpp"
#include "troupe/runtime/telemetry/pattern_files.hpp"
#include "troupe/runtime/telemetry/run_folder.hpp"
#include "troupe/runtime/telemetry/tensorboard.hpp"
#include "troupe/runtime/topology/load.hpp"
#include "troupe/runtime/topology/resumable.hpp"
#include "troupe/tools/drawing/drawing.hpp"

#include <CLI/CLI.hpp>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

namespace troupe::apps {

void add_tensorboard_flag(CLI::App& command, training_options& given) {
  command.add_flag("--tensorboard", given.tensorboard,
                   "Also write the values of metrics.jsonl to an event file for TensorBoard in the results folder");
}

void add_training_options(CLI::App& command, training_options& given) {
  command.add_option("FILE", given.file, "Topology file; with --resume, by default that of the run to continue");
  command
      .add_option("--set", given.overrides,
                  "Override a key of the topology file, given as section.key=value; repeatable")
      ->allow_extra_args(false);
  command.add_option("--out", given.out,
                     "Folder for the results, which is new or empty (default: runs/<file>-<UTC time>)");
  command.add_option(
      "--csv", given.csv,
      "Also write the training time and validation accuracy of each evaluation to this CSV file; the name may "
      "contain placeholders, such as '{ranks}ranks-{batch}bs-{lr}lr.csv'");
  command.add_option(
      "--epoch-log", given.epoch_log,
      "Also write the number, training time, training loss and validation accuracy of each epoch to this text "
      "file; the name may contain placeholders, such as '{ranks}ranks.txt'");
  command.add_option("--resume", given.resume,
                     "Continue the run in this results folder from its newest intact checkpoint");
  add_dashboard_option(command, given.dashboard);
  add_actors_option(command, given.actors);
  command.add_flag("--record", given.record,
                   "Record the order of everything on which the result depends, so that `troupe replay` can repeat the "
                   "run bit for bit; written by the first node to deliveries.bin in the results folder");
  add_tensorboard_flag(command, given);
  add_trace_option(command, given.trace);
  command.add_flag(
      "--overwrite", given.overwrite,
      "Replace the run in the results folder, and the files of --csv and --epoch-log; files that a run does "
      "not write are kept");
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

telemetry::verbosity verbosity_of(const training_options& given) {
  using telemetry::verbosity;
  return given.json ? verbosity::json : given.quiet ? verbosity::quiet : verbosity::normal;
}

void settle(training_options& given) {
  settle(given.dashboard, given.file);
  settle(given.actors, given.file);
  if (given.resume.empty()) {
    if (given.file.empty()) throw input_error("FILE is missing; expected a topology file, or --resume");
    return;
  }
  const auto full = [](const std::filesystem::path& path) { return std::filesystem::weakly_canonical(absolute(path)); };
  if (given.overwrite)
    throw input_error(
        "--resume and --overwrite cannot be combined: one continues a run, the other replaces it; remove "
        "one of them");
  if (!given.out.empty() && full(given.out) != full(given.resume))
    throw input_error(
        "--out names another folder than --resume, but a run is continued in its own folder; remove "
        "--out");
  given.out = given.resume;
  if (!given.file.empty()) return;
  given.file = given.resume / "topology.toml";
  if (!std::filesystem::exists(given.resume))
    throw input_error(given.resume.string() +
                      ": the folder does not exist; expected the results folder of the run to continue");
  if (!std::filesystem::exists(given.file))
    throw input_error(given.resume.string() +
                      ": there is no topology.toml; expected the results folder of the run to continue");
}

std::vector<std::filesystem::path> inputs_of(const plan& plan) {
  return {plan.file.model.init, plan.file.model.file(), plan.file.data.file, plan.file.data.test_file};
}

std::shared_ptr<telemetry::side_outputs> make_outputs() {
  return std::make_shared<telemetry::side_outputs>(telemetry::side_output_options{.warn = print_note});
}

training prepare(const training_options& given) {
  const auto topology = topology::load(given.file, given.overrides);
  auto data = load_data(topology);
  auto plan = make_plan(topology, data_facts(data, topology));
  check_security(plan);
  check_no_faults(plan);
  check_entrance(given.actors, plan);
  if (given.record) recording::check_recordable(plan);
  files_of_options(given, plan);  // reports errors in them before any node is started
  return {std::move(data), std::move(plan)};
}

namespace {

using journal_pointer = std::shared_ptr<telemetry::file_journal>;

using network_pointer = std::shared_ptr<const emulation::network>;

journal_pointer open_journal(const training_options& given, const training& what, telemetry::run_folder folder,
                             telemetry::file_journal_options options, network_pointer network) {
  // A guest may ask for a checkpoint.
  if (what.plan.when.checkpoint_every > 0 || given.actors.address) options.about = describe_run(what);
  options.from = telemetry::origin_of(what.plan, std::chrono::system_clock::now());
  auto shape = telemetry::shape_of(what.plan, folder.path().string());
  shape.about = options.from;
  shape.changed = options.changed;
  auto shown = make_display(verbosity_of(given), shape);
  shown = watched(std::move(shown),
                  {.what = what.plan,
                   .folder = folder.path(),
                   .continues = options.continues,
                   .network = std::move(network),
                   .outputs = options.outputs,
                   .feed = options.feed,
                   .origin = *options.from},
                  given.dashboard);
  options.drawing = svg_of;
  return std::make_shared<telemetry::file_journal>(what.plan, std::move(folder), std::move(shown), options);
}

using outputs_pointer = std::shared_ptr<telemetry::side_outputs>;
using feed_pointer = std::shared_ptr<telemetry::feed>;

journal_pointer start_journal(const training_options& given, const training& what, network_pointer network,
                              outputs_pointer outputs, feed_pointer feed) {
  const auto out = given.out.empty() ? telemetry::default_folder(given.file) : given.out;
  const auto files = files_of_options(given, what.plan);
  // Checked before an earlier run is removed from the folder.
  for (const auto& [option, path] : files) telemetry::make_way_for(option, path, given.overwrite, out, given.file);
  telemetry::run_folder folder{
      {.out = out, .topology = given.file, .inputs = inputs_of(what.plan), .overwrite = given.overwrite}};
  return open_journal(given, what, std::move(folder),
                      {.beside = files, .outputs = std::move(outputs), .feed = std::move(feed)}, std::move(network));
}

journal_pointer continue_journal(const training_options& given, const training& what, const resumption& run,
                                 network_pointer network, outputs_pointer outputs, feed_pointer feed) {
  telemetry::cut_back(run.folder.path(), run.from.folder, run.from.about, run.files, print_note);
  return open_journal(given, what, run.folder,
                      {.beside = run.files,
                       .continues = true,
                       .changed = run.changed,
                       .outputs = std::move(outputs),
                       .feed = std::move(feed)},
                      std::move(network));
}

/// Opens the folder in which this node keeps copies of checkpoints, and returns a function that writes a copy. Throws
/// input_error, also if the folder has copies of another run.
std::function<void(const state_dict&)> keeper_of_copies(const training_options& given, const plan& plan) {
  auto out = given.out;
  if (out.empty()) out = telemetry::default_folder(given.file).string() + "-copy";
  const auto resume = !given.resume.empty();
  const telemetry::run_folder folder{{.out = out,
                                      .topology = given.file,
                                      .overwrite = given.overwrite,
                                      .resume = resume,
                                      .clear_later = true}};  // this node may not be admitted to the run
  for (const auto& copy : checkpoint::checkpoints_in(out)) try {
      topology::check_resumable(checkpoint::read_manifest(copy.path).topology, plan.file, out.string());
    } catch (const checkpoint::damaged&) {  // a damaged copy is never resumed
    }
  if (!given.quiet) print_note("copies of checkpoints are kept in " + out.string());
  const auto clears = std::make_shared<bool>(!resume);
  return [folder, clears, keep = static_cast<std::size_t>(plan.file.checkpoint.keep)](const state_dict& files) {
    durable_files disk;
    try {
      if (std::exchange(*clears, false)) folder.clear();
      checkpoint::write_copy(folder.path(), files, keep, disk);
    } catch (const std::exception& reason) {
      print_note(std::string("warning: the copy of a checkpoint is not complete: ") + reason.what() +
                 "; the run continues");
    }
  };
}

/// Returns the functions that pass the deliveries of a run to its recording.
launch_deliveries recorded_by(const std::shared_ptr<recording::writer>& recording) {
  launch_deliveries deliveries;
  deliveries.order_of = [recording](std::uint32_t actor) { return delivery_order{.log = log_of(recording, actor)}; };
  deliveries.lock_order_of = [recording](std::uint32_t id, const std::shared_ptr<shared_memory>& memory) {
    recording->watch(id, memory);
    return std::shared_ptr<lock_order>{};
  };
  return deliveries;
}

}  // namespace

int train(const training_options& given, training&& what, std::uint32_t node, signal_watch& signals) {
  node_options options{.node = node, .together = given.together};
  options.continues = !given.resume.empty() && (node == 0 || what.plan.keeps_copies(node));
  std::optional<resumption> continued;
  if (node == 0 && !given.resume.empty()) {
    if (is_complete(given, what.plan)) return 0;
    continued = resume(given, what, files_of_options(given, what.plan));
    options.restored = continued->from.state;
  }
  const auto writes_parts = given.trace || has_emulated(what.plan.links);
  if (node != 0 && writes_parts && given.parts.empty() && !given.out.empty())
    telemetry::claim_for_parts(given.out, given.overwrite || !given.resume.empty());
  options.initial = initial_weights(what.plan, options.pool);
  if (what.plan.keeps_copies(node)) options.keep_copy = keeper_of_copies(given, what.plan);
  const auto trace = make_trace(given, what.plan, node);
  options.trace = trace;
  options.network = emulation::make_network(what.plan, what.plan.file.run.seed, emulation::realm::run, trace);
  journal_pointer journal;
  const auto feed = given.actors.address && node == 0 ? std::make_shared<telemetry::feed>() : nullptr;
  if (node == 0)
    options.open_journal = [&, network = options.network]() -> std::shared_ptr<troupe::journal> {
      const auto outputs = make_outputs();
      journal = continued ? continue_journal(given, what, *continued, network, outputs, feed)
                          : start_journal(given, what, network, outputs, feed);
      if (trace) trace->write_to(journal->folder() / "trace.json");
      if (!given.tensorboard) return journal;
      return telemetry::with_event_file(
          journal, {.folder = journal->folder(), .continues = continued.has_value(), .outputs = outputs});
    };
  std::shared_ptr<recording::writer> recorded;
  if (node == 0 && given.record)
    options.open_recording = [&, about = origin_of(what, options.initial)]() mutable {
      recording::keep_beginning(journal->folder(), continued ? continued->from.folder : "", about);
      recorded = std::make_shared<recording::writer>(journal->folder() / recording::file_name, about, print_note);
      return recorded_by(recorded);
    };
  if (!given.quiet) options.report = print_note;
  if (node == 0)
    options.guests = guests_of(
        given.actors, what.plan, feed, [&] { return journal->folder(); },
        [&] {
          if (journal) journal->conclude();
        },
        options.report);
  if (!given.quiet && node != 0 && given.actors.address)
    print_note("guests attach to the first node, " + what.plan.nodes[0].name);
  if (!given.quiet && node != 0 && given.dashboard.address)
    print_note("the dashboard is served by the first node, " + what.plan.nodes[0].name);
  if (!given.quiet && node == 0) {
    for (const auto& note : what.plan.notes) options.report(note);
    for (const auto& warning : what.plan.warnings) options.report("warning: " + warning);
  }

  if (what.plan.nodes.size() > 1 && what.plan.file.security.insecure)
    print_note(
        "warning: security.insecure = true: nothing is encrypted, and any machine that reaches this node can read the "
        "training, change it and end it");

  const auto end = run(what.plan, what.data, std::move(options), signals);
  if (end.refusal) print_error("this node cannot take part in the run: " + *end.refusal);
  if (end.failure) print_error("the run failed: " + *end.failure);
  if (end.signal != 0 && !given.quiet && (!end.begun || node != 0))
    print_note("interrupted by " + name_of_signal(end.signal) + (end.begun ? "" : " before training began"));
  if (trace) trace->close();  // a lane that is stuck may still hold it
  if (has_emulated(what.plan.links)) write_links(given, what.plan, node, journal.get(), end.links);
  if (recorded && !end.failure && !end.refusal) recorded->complete();
  recorded.reset();
  if (journal) {
    const auto folder = journal->folder();
    journal.reset();  // prints how the run has ended, if it has failed
    if (!given.together) offer_to_continue(given, what.plan, folder, end.status());
  }
  if (!end.stuck.empty()) {
    for (const auto& name : end.stuck)
      print_note("warning: " + name + " has not returned from its last operation; this process ends without it");
    std::_Exit(end.status());
  }
  return end.status();
}

}  // namespace troupe::apps
