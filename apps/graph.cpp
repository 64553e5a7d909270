// troupe graph FILE -o NAME: draws the wiring.
#include "troupe/apps/commands.hpp"
#include "troupe/apps/console/drawing_file.hpp"
#include "troupe/files/error.hpp"
#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/topology/load.hpp"
#include "troupe/tools/drawing/drawing.hpp"

#include <CLI/CLI.hpp>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace troupe::apps {

namespace {

struct graph_options {
  std::filesystem::path file, drawing;
  std::vector<std::string> overrides;
  bool overwrite{false}, wiring_only{false};
};

void graph(const graph_options& given) {
  const auto ending = given.drawing.extension();
  if (ending != ".svg" && ending != ".dot")
    throw input_error(given.drawing.string() +
                      ": the extension selects the format; expected a name that ends in .svg or .dot");
  check_replaceable(given.drawing, given.file, given.overwrite);
  const auto topology = topology::load(given.file, given.overrides);
  const auto plan = make_plan(topology, data_facts(load_data(topology), topology));
  const auto parts = given.wiring_only ? drawn_parts::wiring : drawn_parts::all;
  write_drawing(given.drawing, ending == ".dot" ? to_dot(plan, parts) : to_svg(plan, parts));
}

}  // namespace

void add_graph(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("graph", "Draw the wiring that a topology file describes");
  auto given = std::make_shared<graph_options>();
  command->add_option("FILE", given->file, "Topology file")->required();
  command->add_option("-o,--output", given->drawing, "File to write: .svg, or .dot for Graphviz")->required();
  command
      ->add_option("--set", given->overrides,
                   "Override a key of the topology file, given as section.key=value; repeatable")
      ->allow_extra_args(false);
  command->add_flag("--wiring-only", given->wiring_only,
                    "Leave out the title and the actors that do not compute, as for a figure in a paper");
  command->add_flag("--overwrite", given->overwrite, "Replace the file, also if it is not a drawing of this command");
  command->callback([given, &status] {
    graph(*given);
    status = 0;
  });
}

}  // namespace troupe::apps
