// troupe graph FILE -o NAME: draws the wiring.
#include "troupe/apps/commands.hpp"
#include "troupe/files/input.hpp"
#include "troupe/runtime/plan/drawing_mark.hpp"
#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/support/write_aside.hpp"
#include "troupe/runtime/topology/error.hpp"
#include "troupe/runtime/topology/load.hpp"

#include <CLI/CLI.hpp>

#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace troupe::apps {

namespace {

struct options {
  std::filesystem::path file, drawing;
  std::vector<std::string> overrides;
  bool overwrite{false}, wiring_only{false};
};

/// Throws input_error if the file to write is not a drawing of this command. Whoever draws a wiring again and again
/// need not say so.
void check_replaceable(const options& given) {
  std::error_code failed;
  const auto refuse = [&](const std::string& reason) {
    throw input_error(given.drawing.string() + ": " + reason + "; choose another path with -o");
  };
  if (const auto found = files::irregularity(given.drawing)) refuse(*found);
  if (std::filesystem::equivalent(given.file, given.drawing, failed)) refuse("this is the topology file itself");
  if (given.overwrite || !std::filesystem::exists(std::filesystem::symlink_status(given.drawing, failed))) return;
  if (std::filesystem::is_regular_file(given.drawing, failed)) {
    std::string beginning(2048, '\0');
    files::input{given.drawing}.read(beginning.data(), beginning.size());
    if (beginning.find(drawing_mark) != std::string::npos) return;
  }
  throw input_error(given.drawing.string() +
                    ": there is a file of this name that troupe graph has not drawn; replace it with --overwrite, or "
                    "choose another path with -o");
}

void graph(const options& given) {
  const auto ending = given.drawing.extension();
  if (ending != ".svg" && ending != ".dot")
    throw input_error(given.drawing.string() +
                      ": the extension selects the format; expected a name that ends in .svg or .dot");
  check_replaceable(given);
  const auto topology = topology::load(given.file, given.overrides);
  const auto dot = to_dot(make_plan(topology, data_facts(load_data(topology), topology)),
                          given.wiring_only ? drawn_parts::wiring : drawn_parts::all);
  const auto drawing = ending == ".dot" ? dot : to_svg(dot);
  if (const auto folder = given.drawing.parent_path(); !folder.empty()) {
    std::error_code failed;  // write_aside() reports a folder that is missing
    std::filesystem::create_directories(folder, failed);
  }
  try {
    write_aside(given.drawing, drawing);
  } catch (const std::runtime_error& reason) {
    throw input_error(std::string(reason.what()) + "; choose another path with -o");
  }
}

}  // namespace

void add_graph(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("graph", "Draw the wiring that a topology file describes");
  auto given = std::make_shared<options>();
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
