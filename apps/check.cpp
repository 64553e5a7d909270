// troupe check FILE: prints the plan of a run without running it.
#include "troupe/apps/commands.hpp"
#include "troupe/apps/console/page.hpp"
#include "troupe/files/error.hpp"
#include "troupe/models/exported/exported.hpp"
#include "troupe/runtime/launch/channels_of_plan.hpp"
#include "troupe/runtime/launch/launcher.hpp"
#include "troupe/runtime/plan/memory_needs.hpp"
#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/support/units.hpp"
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
  bool json{false}, no_data{false}, operators{false};
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

/// Prints the operators of an exported program in columns, in the order of execution.
void print_operators(const topology::topology& file) {
  const auto& path = file.model.exported;
  if (path.empty())
    throw input_error("--operators requires a model from a file of torch.export.save(), model.exported = \"net.pt2\"");
  const auto rows = models::operators_of(path);
  std::size_t name = 0, sizes = 0;
  for (const auto& row : rows) {
    name = std::max(name, columns_of_text(row.name));
    sizes = std::max(sizes, columns_of_text(row.sizes));
  }
  std::string text = path.filename().string() + ": " + counted(rows.size(), "operator") + "; N samples\n";
  for (const auto& row : rows) {
    auto line = "  " + row.name + std::string(name - columns_of_text(row.name) + 2, ' ') + row.sizes;
    if (!row.place.empty()) line += std::string(sizes - columns_of_text(row.sizes) + 2, ' ') + row.place;
    text += line + "\n";
  }
  print_page(text, name + 4);
}

void check(const check_options& given) {
  const auto topology = topology::load(given.file, given.overrides);
  auto plan = make_plan(topology, facts_of(given, topology));
  add_limits_here(plan);
  check_security(plan);
  models::buffer_pool pool;
  initial_weights(plan, pool);  // throws if model.init does not fit
  if (given.operators) return print_operators(plan.file);
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
  auto* json = command->add_flag("--json", given->json, "Print the plan as one JSON object");
  command
      ->add_flag("--operators", given->operators,
                 "Print the operators of model.exported and the sizes of their results instead of the plan")
      ->excludes(json);
  command->callback([given, &status] {
    check(*given);
    status = 0;
  });
}

}  // namespace troupe::apps
