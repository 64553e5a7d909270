// troupe timeline FILE: steps of a wiring in virtual time, as a table or a picture.
#include "troupe/tools/timeline/timeline.hpp"

#include "troupe/apps/commands.hpp"
#include "troupe/apps/console/drawing_file.hpp"
#include "troupe/files/error.hpp"
#include "troupe/files/json.hpp"
#include "troupe/files/text.hpp"
#include "troupe/runtime/support/units.hpp"
#include "troupe/runtime/topology/load.hpp"
#include "troupe/runtime/topology/value.hpp"
#include "troupe/tools/timeline/picture.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

namespace troupe::apps {

namespace {

/// More steps would take minutes, and no picture could show them.
constexpr std::uint64_t most_steps = 100;

struct timeline_options {
  std::filesystem::path file;
  std::optional<std::filesystem::path> drawing;
  std::vector<std::string> overrides;
  std::vector<std::string> workers;
  std::uint64_t steps{2};
  bool overwrite{false}, json{false};
};

double seconds_of(timeline::time value) {
  return std::chrono::duration<double>(value).count();
}

/// Returns "steps 1 and 2" or "steps 7 to 9".
std::string steps_text(const timeline::timeline& shown) {
  const auto first = std::to_string(shown.first_step), last = std::to_string(shown.last_step);
  if (shown.first_step == shown.last_step) return "step " + first;
  return "steps " + first + (shown.last_step == shown.first_step + 1 ? " and " : " to ") + last;
}

void print_messages(const plan& plan, const timeline::timeline& shown) {
  std::vector<std::array<std::string, 5>> lines{{"time", "from", "to", "what", "bytes"}};
  for (const auto& message : shown.messages) {
    std::array<char, 32> time{};
    std::snprintf(time.data(), time.size(), "%.3f ms", 1e3 * seconds_of(message.sent - shown.begin));
    lines.push_back({time.data(), shown.rows[message.from].name, shown.rows[message.to].name, cargo_of(plan, message),
                     grouped(message.bytes)});
  }
  std::array<std::size_t, 5> widths{};
  for (const auto& line : lines)
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  for (const auto& line : lines) {
    const auto gap = [&](std::size_t i) { return std::string(widths[i] - line[i].size(), ' '); };
    std::printf("%s%s  %s%s  %s%s  %s%s  %s%s\n", gap(0).c_str(), line[0].c_str(), line[1].c_str(), gap(1).c_str(),
                line[2].c_str(), gap(2).c_str(), line[3].c_str(), gap(3).c_str(), gap(4).c_str(), line[4].c_str());
  }
}

files::json to_json(const plan& plan, const timeline::timeline& shown, const timeline::window& window) {
  using json = files::json;
  const auto name_of = [](timeline::activity kind) {
    return kind == timeline::activity::computes ? "compute" : kind == timeline::activity::waits ? "wait" : "fold";
  };
  auto rows = json::array(), messages = json::array();
  for (const auto& row : shown.rows) {
    auto spans = json::array();
    for (const auto& box : row.boxes)
      spans.push_back({{"what", name_of(box.what)},
                       {"step", box.step > 0 ? json(box.step) : json(nullptr)},
                       {"begin", seconds_of(box.begin - shown.begin)},
                       {"end", seconds_of(box.end - shown.begin)}});
    rows.push_back({{"name", row.name}, {"spans", spans}});
  }
  for (const auto& message : shown.messages)
    messages.push_back({{"time", seconds_of(message.sent - shown.begin)},
                        {"received", seconds_of(message.received - shown.begin)},
                        {"step", message.step},
                        {"exchange", plan.exchanges[message.exchange].name},
                        {"from", shown.rows[message.from].name},
                        {"to", shown.rows[message.to].name},
                        {"what", cargo_of(plan, message)},
                        {"stage", timeline::name_of(message.at)},
                        {"first", message.elements.first},
                        {"elements", message.elements.count},
                        {"bytes", message.bytes}});
  return {{"first_step", shown.first_step},
          {"last_step", shown.last_step},
          {"seconds", seconds_of(shown.end - shown.begin)},
          {"assumed", window.assumed},
          {"left_out", window.left_out},
          {"rows", rows},
          {"messages", messages}};
}

/// Returns the ranks that are given as text. Throws input_error for a text that is not the number of a worker.
std::vector<std::uint32_t> ranks_of(const std::vector<std::string>& texts, std::uint32_t workers) {
  std::vector<std::uint32_t> ranks;
  for (const auto& text : texts) {
    std::uint32_t rank = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), rank);
    if (text.empty() || failed != std::errc{} || end != text.data() + text.size() || rank >= workers)
      throw input_error("--workers: there is no worker \"" + text + "\"; expected numbers from 0 to " +
                        std::to_string(workers - 1) + ", such as 0,1");
    ranks.push_back(rank);
  }
  return ranks;
}

void draw_timeline(const timeline_options& given) {
  if (given.drawing) {
    if (given.drawing->extension() != ".svg")
      throw input_error("-o \"" + given.drawing->string() +
                        "\": the picture is an SVG file; expected a name that ends in .svg");
    check_replaceable(*given.drawing, given.file, given.overwrite);
  }
  auto topology = topology::load(given.file, given.overrides);
  const auto data = load_data(topology);
  const auto window = timeline::window_of(make_plan(topology, data_facts(data, topology)), given.steps);
  auto overrides = given.overrides;
  overrides.insert(overrides.end(), window.overrides.begin(), window.overrides.end());
  topology = topology::load(given.file, overrides);
  topology.faults.clear();  // faults may be later than these steps
  const auto plan = make_plan(topology, data_facts(data, topology));
  const auto workers = ranks_of(given.workers, plan.workers);
  auto shown = timeline::make_timeline(plan, data, window);
  if (!workers.empty()) shown = only_workers(std::move(shown), workers);
  auto notes = std::string("in virtual time");
  if (!window.assumed.empty()) notes += "; assumed: " + text::listed(window.assumed, "and");
  if (!window.left_out.empty()) notes += "; not shown: " + text::listed(window.left_out, "and");
  if (given.json) std::printf("%s\n", files::json_text(to_json(plan, shown, window), {.indent = 2}).c_str());
  if (given.drawing) {
    const auto title = given.file.filename().string() + ": " + steps_text(shown);
    write_drawing(*given.drawing, timeline::to_svg(plan, shown, title, notes));
  } else if (!given.json) {
    std::printf("%s of %s, %s\n", steps_text(shown).c_str(), given.file.string().c_str(), notes.c_str());
    if (shown.messages.empty())
      std::printf("no messages\n");
    else
      print_messages(plan, shown);
  }
}

}  // namespace

void add_timeline(CLI::App& app, int& status) {
  auto* command = app.add_subcommand(
      "timeline", "Show some steps of a topology file in virtual time: who computes and waits, and who sends what");
  auto given = std::make_shared<timeline_options>();
  command->add_option("FILE", given->file, "Topology file")->required();
  command->add_option("--steps", given->steps, "How many steps to show, up to the first with every exchange")
      ->check(CLI::Range(std::uint64_t{1}, most_steps))
      ->capture_default_str();
  command->add_option("--workers", given->workers, "Numbers of the workers to show, such as 0,1,2 (default: all)")
      ->delimiter(',');
  command->add_option("-o,--output", given->drawing, "Picture to write (.svg); without it, print a table of messages");
  command
      ->add_option("--set", given->overrides,
                   "Override a key of the topology file, given as section.key=value; repeatable")
      ->allow_extra_args(false);
  command->add_flag("--overwrite", given->overwrite, "Replace the file, also if it is not a drawing of this command");
  command->add_flag("--json", given->json, "Print rows and messages as JSON");
  command->callback([given, &status] {
    draw_timeline(*given);
    status = 0;
  });
}

}  // namespace troupe::apps
