#include "troupe/apps/resume.hpp"

#include "troupe/apps/messages.hpp"
#include "troupe/runtime/checkpoint/folder.hpp"
#include "troupe/runtime/node/fingerprint.hpp"
#include "troupe/runtime/support/sha256.hpp"
#include "troupe/runtime/support/units.hpp"
#include "troupe/runtime/telemetry/cut_back.hpp"
#include "troupe/runtime/topology/canonical.hpp"
#include "troupe/runtime/topology/error.hpp"
#include "troupe/runtime/topology/resumable.hpp"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <string_view>

namespace troupe::apps {

namespace {

/// Throws input_error if an input that the topology only names has other contents than before.
void check_inputs(const checkpoint::manifest& before, const checkpoint::manifest& now, const training& what,
                  const std::string& out) {
  for (const auto& [name, digest] : now.digests) {
    const auto found = before.digests.find(name);
    if (found != before.digests.end() && found->second == digest) continue;
    const auto described = name == "script" ? what.plan.file.model.script.string() + ": the module differs from that"
                                            : what.plan.data->name + ": the samples differ from those";
    throw input_error(described + " of the run in " + out + "; use the same ones to continue it");
  }
}

}  // namespace

std::string quoted(const std::string& argument) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("-_./+:,=@%").find(c) != std::string_view::npos;
  };
  if (!argument.empty() && std::all_of(argument.begin(), argument.end(), plain)) return argument;
  std::string text = "'";
  for (const char c : argument) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

checkpoint::manifest describe_run(const training& what) {
  checkpoint::manifest about;
  about.topology = topology::canonical(what.plan.file);
  about.fingerprint = fingerprint_of(what.plan);
  about.digests["samples"] = digest_of(what.data);
  if (const auto& script = what.plan.file.model.script; !script.empty())
    about.digests["script"] = sha256_of_file(script).value_or("");
  return about;
}

bool is_complete(const training_options& given, const plan& plan) {
  const auto end = telemetry::end_of(given.resume);
  if (!end) return false;
  for (const auto& each : checkpoint::checkpoints_in(given.resume)) try {
      topology::check_resumable(checkpoint::read_manifest(each.path).topology, plan.file, given.resume.string());
      break;
    } catch (const checkpoint::damaged&) {  // reported when the run is continued
    }
  const auto steps = grouped(end->step) + (end->step == 1 ? " step" : " steps");
  const auto done = end->status == "done" && end->step >= plan.steps, stopped = end->status == "stopped_early";
  if (done && !given.quiet)
    print_note(given.resume.string() + ": the run is complete after " + steps +
               "; to train longer, continue it with a larger run.epochs or run.steps");
  if (stopped && !given.quiet)
    print_note(given.resume.string() + ": the run is complete: it was stopped early after " + steps);
  return done || stopped;
}

resumption resume(const training_options& given, const training& what,
                  const std::map<telemetry::pattern_option, std::filesystem::path>& files) {
  telemetry::run_folder folder{{.out = given.resume, .topology = given.file, .resume = true}};
  const auto out = given.resume.string();
  auto from = checkpoint::read_newest(given.resume, print_note);
  topology::check_resumable(from.about.topology, what.plan.file, out);
  if (from.about.step > what.plan.steps)
    throw input_error(what.plan.file.file.string() + ": the run has " + grouped(what.plan.steps) +
                      " steps, but the one in " + out + " has made " + grouped(from.about.step) +
                      " already; expected at least as many");
  const auto now = describe_run(what);
  check_inputs(from.about, now, what, out);
  auto continued = telemetry::continued_files(given.resume, from.about, files);
  if (const auto difference = differing(now.fingerprint, from.about.fingerprint); !difference.empty())
    print_note("warning: the checkpoint was written elsewhere (" + difference +
               "); the result may differ in bits from that of a run without interruption");
  return {std::move(folder), std::move(from), std::move(continued)};
}

std::string continuing_command(const training_options& given, const plan& plan, const std::filesystem::path& out,
                               const std::string& status) {
  std::string command = "troupe run";
  if (!given.name.empty() && !given.together)
    command = "troupe node " + quoted(given.file.string()) + " --name " + quoted(given.name);
  command += " --resume " + quoted(out.string());
  if (given.tensorboard) command += " --tensorboard";
  if (status == "max_seconds" && plan.file.run.max_seconds)
    command +=
        " --set run.max_seconds=" + human_number(2 * std::chrono::duration<double>(*plan.file.run.max_seconds).count());
  return command;
}

}  // namespace troupe::apps
