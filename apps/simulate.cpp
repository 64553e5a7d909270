// troupe simulate FILE: a run in virtual time, on an emulated network.
#include "troupe/apps/against.hpp"
#include "troupe/apps/commands.hpp"
#include "troupe/apps/console/messages.hpp"
#include "troupe/apps/console/whole_number.hpp"
#include "troupe/apps/running/resume.hpp"
#include "troupe/apps/running/tracing.hpp"
#include "troupe/apps/running/training.hpp"
#include "troupe/files/error.hpp"
#include "troupe/runtime/emulation/network.hpp"
#include "troupe/runtime/launch/launcher.hpp"
#include "troupe/runtime/node/signals.hpp"
#include "troupe/runtime/simulation/simulate_run.hpp"
#include "troupe/runtime/support/units.hpp"
#include "troupe/runtime/telemetry/display.hpp"
#include "troupe/runtime/telemetry/file_journal.hpp"
#include "troupe/runtime/telemetry/run_folder.hpp"
#include "troupe/runtime/telemetry/tensorboard.hpp"
#include "troupe/runtime/topology/load.hpp"
#include "troupe/tools/drawing/drawing.hpp"

#include <CLI/CLI.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

namespace troupe::apps {

namespace {

struct simulate_options {
  training_options run;
  simulation_options how;
  std::string compute{"real"};
  std::filesystem::path against;  ///< Results folder of a run to compare the simulation with; empty for none.
};

/// Returns the command that repeats a simulation up to its last message.
std::string repeating_command(const simulate_options& given, std::uint64_t events) {
  auto command = program_name() + " simulate " + quoted(given.run.file.string()) + " --seed " +
                 std::to_string(given.how.seed) + " --events " + std::to_string(events);
  if (!given.how.computes) command += " --compute none";
  for (const auto& assignment : given.run.overrides) command += " --set " + quoted(assignment);
  return command;
}

int simulate_topology(simulate_options& given) {
  settle(given.run.dashboard, given.run.file);
  const auto topology = topology::load(given.run.file, given.run.overrides);
  const auto data = load_data(topology);
  if (!given.against.empty()) {
    std::error_code missing;
    if (std::filesystem::equivalent(given.against, given.run.out, missing))
      throw input_error("--out " + given.run.out.string() +
                        ": this is the run to compare with, which the simulation would replace; choose another folder");
    comparing::check_same_run(topology, given.against);
  }
  const auto real = given.against.empty() ? std::nullopt : std::optional{comparing::read_figures(given.against)};
  auto plan = make_plan(topology, data_facts(data, topology));
  models::buffer_pool pool;
  auto initial = initial_weights(plan, pool);
  settle_durations(plan, data, initial, pool);
  std::atomic<int> signal{0};  // from here on, there is something to save
  const signal_handler interrupting{signals_of_command(), [&](int received) { signal = received; }};
  given.how.signal = &signal;
  telemetry::run_folder folder{
      {.out = given.run.out, .topology = given.run.file, .inputs = inputs_of(plan), .overwrite = given.run.overwrite}};
  const auto outputs = make_outputs();
  const auto trace = make_trace(given.run.trace, folder.path(), "simulation", trace_time{0});
  const auto network = emulation::make_network(plan, given.how.seed, emulation::realm::simulation, trace);
  const auto origin = telemetry::origin_of(plan);
  auto shape = telemetry::shape_of(plan, folder.path().string());
  shape.about = origin;
  auto shown = telemetry::make_display(verbosity_of(given.run), shape);
  shown = watched(std::move(shown),
                  {.what = plan,
                   .folder = folder.path(),
                   .simulated = true,
                   .network = network,
                   .outputs = outputs,
                   .origin = origin},
                  given.run.dashboard);
  if (!given.run.quiet)
    for (const auto& warning : plan.warnings) print_note("warning: " + warning);
  const telemetry::tensorboard_options wanted{.folder = folder.path(), .simulated = true, .outputs = outputs};
  const auto clock = std::make_shared<std::chrono::nanoseconds>(0);
  const auto files = std::make_shared<telemetry::file_journal>(
      plan, std::move(folder), std::move(shown),
      telemetry::file_journal_options{
          .from = origin, .drawing = svg_of, .outputs = outputs, .now = [clock] { return *clock; }});
  std::shared_ptr<journal> journal = files;
  if (given.run.tensorboard) journal = telemetry::with_event_file(std::move(journal), wanted);
  const auto begin = std::chrono::steady_clock::now();
  auto how = given.how;
  how.trace = trace;
  how.links = network;
  how.clock = clock;
  const auto end = simulate_run(plan, data, initial, pool, journal, how);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  write_links(given.run, plan, 0, files.get(), end.links);
  for (const auto& fault : end.not_injected)
    print_note("warning: the run ended before the fault " + fault + ", which did not happen");
  if (end.failure)
    print_error("the simulated run failed: " + *end.failure +
                "\n  to repeat it up to this point: " + repeating_command(given, end.events));
  else if (given.how.stop_after > 0 && end.events >= given.how.stop_after && !given.run.quiet)
    print_note("the simulation was stopped after " + counted(end.events, "message") + ", as --events requested");
  if (!given.run.quiet && !given.run.json)
    print_note(grouped(end.events) + " messages simulated in " + human_number(took.count(), 3) + " s, " +
               grouped(static_cast<std::uint64_t>(static_cast<double>(end.events) / took.count())) + " per second");
  if (!real || end.status() != 0) return end.status();
  if (files->status() == "done") {
    const auto simulate = [&](std::chrono::microseconds gradient) {
      return timing_of(plan, data, initial, pool, given.how, gradient);
    };
    print_against(given.against, *real, files->folder(), plan, simulate, given.run.json);
  } else {
    print_note("the simulation has not made all its steps, so that it cannot be compared with " +
               given.against.string());
  }
  return end.status();
}

}  // namespace

void add_simulate(CLI::App& app, int& status) {
  auto* command =
      app.add_subcommand("simulate", "Run a topology file in virtual time, on the network that it describes");
  auto given = std::make_shared<simulate_options>();
  auto& run = given->run;
  command->add_option("FILE", run.file, "Topology file; see its sections [[link]], [[fault]] and [simulate]")
      ->required();
  command
      ->add_option("--seed", given->how.seed,
                   "Seed of the order of simultaneous events, of jitter and of losses; run.seed stays as it is")
      ->check(whole_number(0));
  command
      ->add_option("--compute", given->compute,
                   "Whether gradients are computed (real) or only their time passes (none), without losses and weights")
      ->check(CLI::IsMember({"real", "none"}))
      ->capture_default_str();
  command->add_option("--against", given->against,
                      "Results folder of a real run of the same topology: print how far the simulation is from it, and "
                      "what explains the difference");
  command->add_option("--events", given->how.stop_after, "Stop after this number of messages")->check(whole_number(1));
  command
      ->add_option("--set", run.overrides,
                   "Override a key of the topology file, given as section.key=value; repeatable")
      ->allow_extra_args(false);
  command->add_option("--out", run.out, "Folder for the results (default: runs/<file>-<UTC time>)");
  add_tensorboard_flag(*command, run);
  add_trace_option(*command, run.trace);
  add_dashboard_option(*command, run.dashboard);
  command->add_flag("--overwrite", run.overwrite,
                    "Replace the run in the results folder; files that a run does not write are kept");
  command->add_flag("--quiet", run.quiet, "Print errors only");
  command->add_flag("--json", run.json, "Print the lines of metrics.jsonl instead of progress");
  command->callback([given, &status] {
    given->how.computes = given->compute == "real";
    status = simulate_topology(*given);
  });
}

}  // namespace troupe::apps
