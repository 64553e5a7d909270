// troupe node FILE --name alpha: runs one node of a topology; the run begins when all nodes of the file have joined.
#include "troupe/apps/commands.hpp"
#include "troupe/apps/console/messages.hpp"
#include "troupe/apps/running/training.hpp"
#include "troupe/files/error.hpp"
#include "troupe/files/text.hpp"
#include "troupe/net/security/secret.hpp"
#include "troupe/runtime/launch/channels_of_plan.hpp"
#include "troupe/runtime/node/local_nodes.hpp"
#include "troupe/runtime/supervision/node_name.hpp"
#include "troupe/runtime/topology/suggest.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace troupe::apps {

namespace {

/// Returns the index of the node of this name. Throws input_error.
std::uint32_t find_node(const training_options& given, const plan& plan, const std::string& name) {
  std::vector<std::string> names;
  for (std::uint32_t i = 0; i < plan.nodes.size(); ++i) {
    const auto& node = plan.nodes[i];
    names.push_back(node.name);
    if (node.name != name) continue;
    for (const auto& other : plan.nodes)
      if (plan.nodes.size() > 1 && other.address.port == 0)
        throw input_error(given.file.string() + ": node " + other.name +
                          " has no fixed port, which nodes that are started by hand need; set node." + other.name +
                          ".address, for example to \"127.0.0.1:4700\"");
    return i;
  }
  if (plan.file.nodes.empty())
    throw input_error(given.file.string() +
                      ": the file has no [[node]]; run it with `troupe run`, or add a [[node]] with name = \"" + name +
                      "\"");
  const auto problem = name.empty() ? std::string(": --name is missing") : ": unknown node \"" + name + "\"";
  throw input_error(given.file.string() + problem + "; expected " + text::listed(text::in_quotes(names)) +
                    topology::did_you_mean(name, names));
}

/// Returns the name of the node, which the launcher of this process may determine.
std::string name_of(const training_options& given, const plan& plan) {
  const auto is_it = [&](const planned_node& node) { return node.name == given.name; };
  const auto decided = given.name == "auto" && std::none_of(plan.nodes.begin(), plan.nodes.end(), is_it);
  return decided ? launched_name(plan.nodes, surroundings()) : given.name;
}

int run_node(training_options& given) {
  auto& signals = signals_of_command();
  settle(given);
  auto prepared = prepare(given);
  assign_ports(prepared.plan, given.ports);
  const auto node = find_node(given, prepared.plan, name_of(given, prepared.plan));
  if (!given.quiet && uses_secret(prepared.plan) && std::getenv(security::secret_variable) == nullptr)
    print_note("the nodes of this run identify themselves with the secret in " +
               secret_file_of(prepared.plan).string());
  return train(given, std::move(prepared), node, signals);
}

}  // namespace

void add_node(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("node", "Run one process, a [[node]] section, of a topology file");
  auto given = std::make_shared<training_options>();
  add_training_options(*command, *given);
  command->add_option(
      "--name", given->name,
      "Name of the [[node]] to run; with \"auto\", it comes from TROUPE_NODE, its index from Slurm, Open MPI or "
      "Kubernetes, or it is the node with the name or an address of this host");
  // Passed by `troupe run`; not for users.
  command->add_flag("--together", given->together)->group("");
  command->add_option("--parts", given->parts)->group("");
  command->add_option("--port", given->ports)->allow_extra_args(false)->group("");
  command->callback([given, &status] { status = run_node(*given); });
}

}  // namespace troupe::apps
