// troupe run FILE: trains. Each [[node]] of the file is a process of its own.
#include "troupe/apps/commands.hpp"
#include "troupe/apps/running/resume.hpp"
#include "troupe/apps/running/training.hpp"
#include "troupe/net/security/secret.hpp"
#include "troupe/runtime/checkpoint/copy.hpp"
#include "troupe/runtime/launch/channels_of_plan.hpp"
#include "troupe/runtime/node/local_nodes.hpp"
#include "troupe/runtime/plan/memory_needs.hpp"
#include "troupe/runtime/telemetry/node_parts.hpp"
#include "troupe/runtime/telemetry/run_folder.hpp"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace troupe::apps {

namespace {

/// Returns the command line of each node of `plan`. `ports` are the ports that were chosen for the nodes.
std::vector<local_node> commands(const training_options& given, const plan& plan,
                                 const std::vector<std::string>& ports) {
  const auto copies = given.out / checkpoint::copies_folder;
  std::vector<std::string> common{given.file.string()};
  const auto add = [&](const std::string& option, const std::string& value) {
    common.insert(common.end(), {option, value});
  };
  for (const auto& assignment : given.overrides) add("--set", assignment);
  for (const auto& port : ports) add("--port", port);
  if (!given.csv.empty()) add("--csv", given.csv);
  if (!given.epoch_log.empty()) add("--epoch-log", given.epoch_log);
  if (given.tensorboard) common.emplace_back("--tensorboard");
  if (given.overwrite) common.emplace_back("--overwrite");
  if (given.quiet) common.emplace_back("--quiet");
  if (given.json) common.emplace_back("--json");
  if (given.trace) common.emplace_back("--trace");
  if (!given.out.empty()) add("--parts", given.out.string());
  std::vector<local_node> result;
  for (const auto& node : plan.nodes) {
    std::vector<std::string> arguments{"troupe", "node", "--together", "--name", node.name};
    arguments.insert(arguments.end(), common.begin(), common.end());
    const auto keeps_copies = plan.keeps_copies(static_cast<std::uint32_t>(result.size()));
    const auto& out = keeps_copies ? copies : given.out;
    const auto continues = !given.resume.empty() && (result.empty() || (keeps_copies && exists(copies)));
    if (given.record && result.empty()) arguments.emplace_back("--record");  // the servers are on the first node
    if (given.dashboard.address && result.empty()) arguments.push_back("--dashboard=" + *given.dashboard.address);
    if (given.actors.address && result.empty()) arguments.emplace_back("--actors");
    if (!out.empty()) arguments.insert(arguments.end(), {continues ? "--resume" : "--out", out.string()});
    result.push_back({node.name, std::move(arguments)});
  }
  return result;
}

int run_topology(training_options& given) {
  auto& signals = signals_of_command();
  settle(given);
  auto prepared = prepare(given);
  if (prepared.plan.nodes.size() == 1) return train(given, std::move(prepared), 0, signals);
  if (!given.resume.empty() && is_complete(given, prepared.plan)) return 0;
  const auto plan = std::move(prepared.plan);
  const auto has_runs = std::filesystem::exists("runs");
  if (given.out.empty()) given.out = telemetry::default_folder(given.file);
  if (plan.keeps_copies(1)) {
    // Before any node is started, because the first one removes earlier outputs from its folder.
    if (given.resume.empty())
      telemetry::check_replaceable(
          {.out = given.out / checkpoint::copies_folder, .topology = given.file, .overwrite = given.overwrite});
  }
  const auto writes_parts = given.trace || has_emulated(plan.links);
  prepared = {};
  check_this_host(plan);
  std::vector<std::uint32_t> every_node(plan.nodes.size());
  std::iota(every_node.begin(), every_node.end(), 0);
  check_workers(plan, every_node);
  auto nodes = plan.nodes;
  choose_ports(nodes);
  const auto existed = std::filesystem::exists(given.out);
  if (given.resume.empty())
    // Any node may be the first that writes to the folder. The lock is released again, because the first node locks it.
    telemetry::run_folder({.out = given.out,
                           .topology = given.file,
                           .inputs = inputs_of(plan),
                           .overwrite = given.overwrite,
                           .clear_later = true});
  constexpr int keep = 0;  // a secret that is already set
  if (uses_secret(plan)) ::setenv(security::secret_variable, security::make_secret().c_str(), keep);
  std::vector<std::string> names;
  for (const auto& node : plan.nodes) names.push_back(node.name);
  if (writes_parts) telemetry::remove_parts(given.out, names);
  const auto status = run_local_nodes(commands(given, plan, chosen_ports(plan, nodes)), signals);
  if (writes_parts) telemetry::gather_parts(given.out, names);
  if (given.resume.empty()) telemetry::disclaim(given.out, existed);
  if (std::error_code full; !has_runs) std::filesystem::remove("runs", full);  // fails if it is not empty
  // Printed here and not by the first node, which may have been killed.
  offer_to_continue(given, plan, given.out, status);
  return status;
}

}  // namespace

void add_run(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("run", "Train the model that a topology file describes");
  auto given = std::make_shared<training_options>();
  add_training_options(*command, *given);
  command->callback([given, &status] { status = run_topology(*given); });
}

}  // namespace troupe::apps
