// troupe check FILE: prints the plan of a run without running it.
#include "troupe/apps/commands.hpp"
#include "troupe/apps/console/page.hpp"
#include "troupe/files/error.hpp"
#include "troupe/runtime/launch/channels_of_plan.hpp"
#include "troupe/runtime/launch/launcher.hpp"
#include "troupe/runtime/plan/memory_needs.hpp"
#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/topology/load.hpp"
#include "troupe/tools/drawing/drawing.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace troupe::apps {

namespace {

struct check_options {
  std::filesystem::path file;
  std::vector<std::string> overrides;
  bool json{false}, no_data{false};
};

/// Returns the facts about the data that the plan needs. With --no-data, loads the data only if the program generates
/// them.
data_facts facts_of(const check_options& given, const topology::topology& file) {
  const auto* kind = data::find_dataset(file.data.name);
  const auto has_files =
      kind != nullptr && (!kind->folder.empty() || std::count(kind->reads.begin(), kind->reads.end(), "file") > 0);
  if (given.no_data && has_files) return {*kind, file};
  const auto sets = load_data(file);
  data_facts facts{sets, file};
  if (sets.train->rows) facts.sparsity = data::sparsity_of(*sets.train->rows);
  return facts;
}

/// Warns if this machine cannot run its workers. The file is still valid on other machines and in a simulation.
void add_limits_here(plan& plan) try {
  std::vector<std::uint32_t> local;
  for (std::uint32_t node = 0; node < plan.nodes.size(); ++node)
    if (plan.nodes.size() == 1 || is_loopback(plan.nodes[node].address)) local.push_back(node);
  if (!local.empty()) check_workers(plan, local);
} catch (const input_error& reason) {
  plan.warnings.push_back(std::string("`troupe run` refuses this file here: ") + reason.what());
}

void check(const check_options& given) {
  const auto topology = topology::load(given.file, given.overrides);
  auto plan = make_plan(topology, facts_of(given, topology));
  add_limits_here(plan);
  check_security(plan);
  models::buffer_pool pool;
  initial_weights(plan, pool);  // throws if model.init does not fit
  if (given.json)
    std::cout << describe_json(plan) << "\n";
  else
    print_page(describe(plan), std::string("  same bits   ").size());
}

}  // namespace

void add_check(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("check", "Print the plan of a run without starting it");
  auto given = std::make_shared<check_options>();
  command->add_option("FILE", given->file, "Topology file")->required();
  command
      ->add_option("--set", given->overrides,
                   "Override a key of the topology file, given as section.key=value; repeatable")
      ->allow_extra_args(false);
  command->add_flag("--no-data", given->no_data,
                    "Do not read the data set: check with its published size (mnist, fashion_mnist or cifar10)");
  command->add_flag("--json", given->json, "Print the plan as one JSON object");
  command->callback([given, &status] {
    check(*given);
    status = 0;
  });
}

}  // namespace troupe::apps
