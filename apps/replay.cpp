// troupe replay DIR: repeats a run that was recorded, bit for bit.
#include "troupe/apps/commands.hpp"
#include "troupe/apps/console/messages.hpp"
#include "troupe/apps/console/whole_number.hpp"
#include "troupe/apps/running/recorded.hpp"
#include "troupe/apps/running/resume.hpp"
#include "troupe/apps/running/tracing.hpp"
#include "troupe/apps/running/training.hpp"
#include "troupe/files/error.hpp"
#include "troupe/files/text.hpp"
#include "troupe/runtime/launch/launcher.hpp"
#include "troupe/runtime/recording/beginning.hpp"
#include "troupe/runtime/simulation/replay_run.hpp"
#include "troupe/runtime/supervision/fingerprint.hpp"
#include "troupe/runtime/support/units.hpp"
#include "troupe/runtime/telemetry/display.hpp"
#include "troupe/runtime/telemetry/file_journal.hpp"
#include "troupe/runtime/telemetry/run_folder.hpp"
#include "troupe/runtime/topology/canonical.hpp"
#include "troupe/tools/drawing/drawing.hpp"

#include <CLI/CLI.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace troupe::apps {

namespace {

struct replay_options {
  std::filesystem::path recorded;  ///< The results folder of the run.
  training_options run;
  std::optional<std::uint64_t> until{};
};

/// Throws input_error if the recording was made with another version, another topology or other inputs than `now`.
void check_origin(const recording::origin& recorded, const recording::origin& now, const std::string& path) {
  if (recorded.version != now.version)
    throw input_error(path + ": recorded by Troupe " + text::printable(recorded.version) + ", but this is " +
                      now.version + "; replay it with that version");
  if (recorded.topology != now.topology)
    throw input_error(path + ": recorded with another topology than the topology.toml beside it: " +
                      topology::differences(now.topology, recorded.topology));
  for (const auto& [name, digest] : now.digests) {
    const auto found = recorded.digests.find(name);
    if (found == recorded.digests.end() || found->second != digest)
      throw input_error(path + ": recorded with other " +
                        (name == "script" || name == "exported" ? std::string("model code") : name) +
                        "; use the same to replay it");
  }
}

/// Prints where a replay ended that ended before the run.
void print_cut(const replay_options& given, std::uint64_t step, const recording::contents& recorded) {
  if (given.run.quiet) return;
  const auto steps = "after " + counted(step, "step");
  if (given.until && step >= *given.until) return print_note("the replay was ended " + steps + ", as requested");
  print_note("the recording is of a run that did not finish; the replay ends " + steps + ", with " +
             grouped(recorded.entries.size()) + " deliveries");
}

int replay_recording(replay_options& given) {
  auto& run = given.run;
  const auto path = (given.recorded / recording::file_name).string();
  run.file = given.recorded / "topology.toml";
  for (const auto& needed : {std::filesystem::path(path), run.file})
    if (!std::filesystem::exists(needed))
      throw input_error(given.recorded.string() + ": there is no " + needed.filename().string() +
                        "; expected the results folder of `troupe run --record`");
  recording::contents recorded;
  std::optional<checkpoint::loaded_checkpoint> from;
  try {
    recorded = recording::read(path);
    from = recording::beginning_of(given.recorded, recorded.about);
  } catch (const recording::damaged& problem) {
    throw input_error(path + ": " + problem.what());
  }
  if (given.until && from && *given.until < from->state->step)
    throw input_error("--until " + std::to_string(*given.until) + ": the recording begins at step " +
                      std::to_string(from->state->step) + "; expected that step or a later one");
  auto prepared = prepare(run);
  models::buffer_pool pool;
  auto initial = initial_weights(prepared.plan, pool);
  check_origin(recorded.about, origin_of(prepared, initial), path);
  if (run.out.empty()) {
    const auto name = std::filesystem::absolute(given.recorded).lexically_normal();
    const auto stem = name.has_filename() ? name.filename() : name.parent_path().filename();
    run.out = telemetry::default_folder(stem.string() + "-replay");
  }
  std::atomic<int> signal{0};  // from here on, there is something to save
  const signal_handler interrupting{signals_of_command(), [&](int received) { signal = received; }};
  telemetry::run_folder folder{
      {.out = run.out, .topology = run.file, .inputs = inputs_of(prepared.plan), .overwrite = run.overwrite}};
  const auto outputs = make_outputs();
  const auto origin = telemetry::origin_of(prepared.plan);
  auto shape = telemetry::shape_of(prepared.plan, folder.path().string());
  shape.about = origin;
  auto shown = telemetry::make_display(verbosity_of(run), shape);
  shown = watched(
      std::move(shown),
      {.what = prepared.plan, .folder = folder.path(), .simulated = true, .outputs = outputs, .origin = origin});
  const auto journal = std::make_shared<telemetry::file_journal>(
      prepared.plan, std::move(folder), std::move(shown),
      telemetry::file_journal_options{.from = origin, .drawing = svg_of, .outputs = outputs});
  const auto [end, cut_at] = replay_run(
      prepared.plan, prepared.data, std::move(initial), std::move(pool), journal,
      {.recorded = recorded,
       .from = from ? from->state : nullptr,
       .until = given.until,
       .signal = &signal,
       .trace = make_trace(run.trace, journal->folder(), "replay", trace_time_of(std::chrono::steady_clock::now()))});
  if (end.failure) print_error("the replay failed: " + *end.failure);
  if (!end.failure && end.signal == 0 && cut_at) print_cut(given, *cut_at, recorded);
  return end.status();
}

}  // namespace

recording::origin origin_of(const training& what, const at::Tensor& initial) {
  const auto about = describe_run(what);
  recording::origin result{.version = version(), .topology = about.topology, .digests = about.digests};
  result.digests["initial weights"] = digest_of(initial);
  return result;
}

void add_replay(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("replay", "Repeat a run that was recorded with `troupe run --record`");
  auto given = std::make_shared<replay_options>();
  auto& run = given->run;
  command->add_option("DIR", given->recorded, "Results folder of the recorded run")->required();
  command->add_option("--out", run.out, "Folder for the results (default: runs/<DIR>-replay-<UTC time>)");
  command
      ->add_option("--until", given->until,
                   "End the replay when this number of steps is completed, as `step` in metrics.jsonl counts them")
      ->check(whole_number(1));
  add_trace_option(*command, run.trace);
  command->add_flag("--overwrite", run.overwrite,
                    "Replace the run in the results folder; files that a run does not write are kept");
  command->add_flag("--quiet", run.quiet, "Print errors only");
  command->add_flag("--json", run.json, "Print the lines of metrics.jsonl instead of progress");
  command->callback([given, &status] { status = replay_recording(*given); });
}

}  // namespace troupe::apps
