#include "troupe/apps/running/resume.hpp"

#include "troupe/apps/console/messages.hpp"
#include "troupe/data/formats/utf8.hpp"
#include "troupe/files/error.hpp"
#include "troupe/runtime/checkpoint/folder.hpp"
#include "troupe/runtime/launch/other_intervals.hpp"
#include "troupe/runtime/supervision/fingerprint.hpp"
#include "troupe/runtime/support/sha256.hpp"
#include "troupe/runtime/support/units.hpp"
#include "troupe/runtime/telemetry/cut_back.hpp"
#include "troupe/runtime/topology/canonical.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string_view>

namespace troupe::apps {

namespace {

/// Throws input_error if an input that the topology only names has other contents than before.
void check_inputs(const checkpoint::manifest& before, const checkpoint::manifest& now, const training& what,
                  const std::string& out) {
  for (const auto& [name, digest] : now.digests) {
    const auto found = before.digests.find(name);
    if (found != before.digests.end() && found->second == digest) continue;
    const auto described = name == what.plan.file.model.name
                               ? what.plan.file.model.file().string() + ": the module differs from that"
                               : what.plan.data->name + ": the samples differ from those";
    throw input_error(described + " of the run in " + out + "; use the same ones to continue it");
  }
}

}  // namespace

checkpoint::manifest describe_run(const training& what) {
  checkpoint::manifest about;
  about.topology = topology::canonical(what.plan.file);
  about.fingerprint = fingerprint_of(what.plan);
  about.digests["samples"] = digest_of(what.data);
  if (const auto& file = what.plan.file.model.file(); !file.empty())
    about.digests[what.plan.file.model.name] = sha256_of_file(file).value_or("");
  return about;
}

bool is_complete(const training_options& given, const plan& plan) {
  const auto end = telemetry::end_of(given.resume);
  if (!end) return false;
  std::vector<topology::changed_setting> changed;
  for (const auto& saved : checkpoint::checkpoints_in(given.resume)) try {
      changed =
          topology::check_resumable(checkpoint::read_manifest(saved.path).topology, plan.file, given.resume.string());
      break;
    } catch (const checkpoint::damaged&) {  // reported when the run is continued
    }
  const auto steps = counted(end->step, "step");
  const auto done = end->status == "done" && end->step >= plan.steps,
             stopped =
                 end->status == "stopped_early" &&
                 std::none_of(changed.begin(), changed.end(), [](const auto&change) { return change.of_training; });
  if (done && !given.quiet)
    print_note(given.resume.string() + ": the run is complete after " + steps +
               "; to train longer, continue it with a larger run.epochs or run.steps");
  if (stopped && !given.quiet)
    print_note(given.resume.string() + ": the run is complete: it was stopped early after " + steps +
               "; to train on, continue it with another evaluate.target_accuracy, evaluate.target_hold, "
               "evaluate.patience or optimizer.lr");
  return done || stopped;
}

resumption resume(const training_options& given, const training& what,
                  const std::map<telemetry::pattern_option, std::filesystem::path>& files) {
  telemetry::run_folder folder{{.out = given.resume, .topology = given.file, .resume = true}};
  const auto out = given.resume.string();
  auto from = checkpoint::read_newest(given.resume, print_note);
  auto changed = topology::check_resumable(from.about.topology, what.plan.file, out);
  from.state = with_intervals_of(what.plan, from.state, changed);
  if (from.about.step > what.plan.steps)
    throw input_error(what.plan.file.file.string() + ": the run has " + grouped(what.plan.steps) +
                      " steps, but the one in " + out + " has made " + grouped(from.about.step) +
                      " already; expected at least as many");
  const auto current = describe_run(what);
  check_inputs(from.about, current, what, out);
  auto continued = telemetry::continued_files(given.resume, from.about, files);
  if (const auto difference = differing(current.fingerprint, from.about.fingerprint); !difference.empty())
    print_note("warning: the checkpoint was written elsewhere (" + difference +
               "); the result may differ in bits from that of a run without interruption");
  return {std::move(folder), std::move(from), std::move(changed), std::move(continued)};
}

namespace {

/// Returns whether the newest readable checkpoint in `out` is one of this run.
bool can_be_continued(const plan& plan, const std::filesystem::path& out) {
  for (const auto& saved : checkpoint::checkpoints_in(out)) try {
      topology::check_resumable(checkpoint::read_manifest(saved.path).topology, plan.file, out.string());
      return true;
    } catch (const checkpoint::damaged&) {  // an earlier one is used
    } catch (const input_error&) {
      return false;  // the folder still has the files of another run
    }
  return false;
}

/// Returns the command that continues a run. The results folder has the topology file with every setting, but a node is
/// started with the file that the other nodes use.
std::string continuing_command(const training_options& given, const plan& plan, const std::filesystem::path& out,
                               bool out_of_time) {
  constexpr std::string_view limit = "run.max_seconds=";
  const auto is_node = !given.name.empty() && !given.together;
  std::string command = program_name() + " run";
  if (is_node) {
    command = program_name() + " node " + quoted(given.file.string()) + " --name " + quoted(given.name);
    for (const auto& assignment : given.overrides)
      if (!out_of_time || !assignment.starts_with(limit)) command += " --set " + quoted(assignment);
  }
  command += " --resume " + quoted(out.string());
  const auto is_elsewhere = [](const auto& exchange) { return exchange.nature.is_elsewhere(); };
  if (std::any_of(plan.exchanges.begin(), plan.exchanges.end(), is_elsewhere)) command += " --actors";
  if (given.tensorboard) command += " --tensorboard";
  if (given.trace) command += " --trace";
  if (given.record) command += " --record";
  if (given.json) command += " --json";
  if (const auto& address = given.dashboard.address) command += " " + quoted("--dashboard=" + *address);
  if (out_of_time) {
    const std::chrono::duration<double> used = *plan.file.run.max_seconds;
    command += " --set " + std::string(limit) + human_number(2 * used.count());
  }
  return command;
}

}  // namespace

void offer_to_continue(const training_options& given, const plan& plan, const std::filesystem::path& out,
                       int exit_status) {
  constexpr int refused = 2;
  const auto end = telemetry::end_of(out);
  const auto out_of_time = exit_status == 0 && end && end->status == "max_seconds" && plan.file.run.max_seconds;
  const auto halted = exit_status == 0 && end && end->status == "halted";
  const auto cut_short = out_of_time || halted || (exit_status != 0 && exit_status != refused);
  if (given.quiet || !cut_short || !can_be_continued(plan, out)) return;
  const auto is_node = !given.name.empty() && !given.together && plan.nodes.size() > 1;
  auto* out_of_command = given.json ? stderr : stdout;
  if (is_node) std::fputs("to continue the run, start the other nodes again\n", out_of_command);
  // Printed in full, however long it is.
  const auto command = data::printable_utf8(continuing_command(given, plan, out, out_of_time));
  std::fprintf(out_of_command, "continue with: %s\n", command.c_str());
  std::fflush(out_of_command);
}

}  // namespace troupe::apps
