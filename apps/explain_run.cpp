// troupe explain-run DIR: where the time of a finished run went, and what to try.
#include "troupe/apps/commands.hpp"
#include "troupe/apps/console/page.hpp"
#include "troupe/apps/console/share_bar.hpp"
#include "troupe/apps/console/shell_words.hpp"
#include "troupe/files/error.hpp"
#include "troupe/files/json.hpp"
#include "troupe/runtime/support/terminal.hpp"
#include "troupe/runtime/support/units.hpp"
#include "troupe/runtime/topology/load.hpp"
#include "troupe/tools/diagnosis/suggestions.hpp"
#include "troupe/tools/diagnosis/what_if.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace troupe::apps {

namespace {

using diagnosis::shares;
using json = files::json;

struct explain_run_options {
  std::filesystem::path folder;
  bool json{false};
};

/// What is known about a run.
struct answers {
  diagnosis::measured_run run;
  diagnosis::findings found;
  std::optional<diagnosis::explanation> why{};  ///< Empty if the run cannot be simulated.
  std::vector<diagnosis::suggestion> suggestions{};
  std::string unknown{};    ///< Why the run cannot be simulated.
  bool knows_links{false};  ///< Whether the topology describes the network.
};

answers answers_of(const std::filesystem::path& folder) {
  answers result;
  if (!is_directory(folder))
    throw input_error(folder.string() + (exists(folder) ? ": this is not a folder" : ": the folder does not exist") +
                      "; expected the results folder of a run");
  result.run = diagnosis::read_run(folder);
  if (!exists(folder / "topology.toml"))
    throw input_error(folder.string() + ": there is no topology.toml; expected the results folder of a run");
  auto file = topology::load(folder / "topology.toml");
  result.knows_links = !file.links.empty();
  result.found = findings_of(result.run);
  const auto cores = std::max(1u, std::thread::hardware_concurrency());
  try {
    const diagnosis::what_if simulated(std::move(file), result.run, cores);
    result.why = simulated.explain();
    result.suggestions = suggestions_of(simulated, result.run.seconds, cores);
  } catch (const std::exception& reason) {  // such as data that is on another machine
    result.unknown = reason.what();
  }
  return result;
}

/// Workers that share a row of the table: one or, if there are many workers, several with consecutive ranks.
struct row {
  std::string name;
  std::uint64_t steps{0};  ///< Mean over the workers.
  shares of{};             ///< Mean over the workers.
};

std::vector<row> table_rows(const diagnosis::measured_run& run, const diagnosis::findings& found) {
  constexpr std::size_t most_rows = 16;
  const auto count = found.workers.size();
  const auto together = (count + most_rows - 1) / most_rows;
  std::vector<row> rows;
  for (std::size_t first = 0; first < count; first += together) {
    const auto end = std::min(first + together, count);
    const auto part = 1 / static_cast<double>(end - first);
    row averaged{.name = std::to_string(first) + (end > first + 1 ? "–" + std::to_string(end - 1) : "")};
    for (auto rank = first; rank < end; ++rank) {
      const auto& worker = found.workers[rank];
      averaged.steps += run.workers[rank].steps;
      averaged.of.compute += part * worker.compute;
      averaged.of.data += part * worker.data;
      averaged.of.exchange += part * worker.exchange;
      averaged.of.other += part * worker.other;
    }
    averaged.steps /= end - first;
    rows.push_back(averaged);
  }
  return rows;
}

void print_table(const std::vector<row>& rows) {
  std::size_t names = std::string("worker").size(), steps = std::string("steps").size();
  for (const auto& line : rows) {
    names = std::max(names, columns_of_text(line.name));
    steps = std::max(steps, grouped(line.steps).size());
  }
  constexpr std::size_t share_columns = 10;
  const auto used = names + 2 + steps + kinds_of_time.size() * share_columns + 2;
  const auto page = page_columns();
  const auto bar_columns = page > used + 10 ? std::min<std::size_t>(page - used - 1, 50) : 0;
  std::cout << cell("worker", names) << "  " << cell("steps", steps);
  for (const auto& kind : kinds_of_time) std::cout << cell(kind.name, share_columns);
  std::cout << "\n";
  for (const auto& line : rows) {
    std::cout << cell(line.name, names) << "  " << cell(grouped(line.steps), steps);
    for (const auto& kind : kinds_of_time) std::cout << cell(diagnosis::percent(line.of.*kind.share), share_columns);
    if (bar_columns > 0) std::cout << "  " << share_bar(line.of, bar_columns, shows_colours(STDOUT_FILENO));
    std::cout << "\n";
  }
  if (bar_columns == 0) return;
  std::cout << "\n";
  for (const auto& kind : kinds_of_time)
    std::cout << (kind.name == kinds_of_time[0].name ? "" : "   ") << kind.glyph << " " << kind.name;
  std::cout << "\n";
}

/// Names the command that tries other exchanges, if exchanges cost most of the time.
void print_search(const explain_run_options& given, const answers& all) {
  const auto main = all.why ? all.why->main_cause(all.run.seconds) : std::nullopt;
  if (!main || main->of != diagnosis::cause::exchanges) return;
  std::cout << "\nTo find the exchange that trains this model soonest on your network:\n  " << program_name()
            << " tune " << quoted((given.folder / "topology.toml").string())
            << (all.knows_links ? "" : " --link BANDWIDTH,LATENCY") << "\n";
}

void print_suggestions(const answers& all) {
  std::cout << "\n";
  if (!all.unknown.empty()) {
    print_wrapped("", 0, "The run cannot be simulated here, so nothing is suggested: " + all.unknown);
    return;
  }
  if (all.suggestions.empty()) {
    std::cout << "No setting is predicted to make it noticeably faster.\n";
    return;
  }
  std::cout << "What to try, with the time that a simulation of this run predicts for the same number of samples:\n";
  for (const auto& proposal : all.suggestions) {
    std::string settings;
    for (const auto& assignment : proposal.settings)
      settings += (settings.empty() ? "" : " ") + ("--set " + quoted(assignment));
    print_wrapped("  -", 4,
                  human_number(proposal.seconds, 3) + " s instead of " + human_number(all.run.seconds, 3) + " s. " +
                      proposal.why + (proposal.changes_training ? "" : " The weights stay the same."));
    std::cout << "      " << settings << "\n";
  }
}

json json_of(const shares& of) {
  return {{"compute", of.compute}, {"data", of.data}, {"exchange", of.exchange}, {"other", of.other}};
}

json json_of(const explain_run_options& given, const answers& all) {
  const auto& [run, findings, why, suggestions, unknown, knows_links] = all;
  json workers = json::array(), links = json::array(), tries = json::array(), causes = json::array();
  for (std::size_t rank = 0; rank < findings.workers.size(); ++rank) {
    json worker{{"worker", rank}, {"steps", run.workers[rank].steps}};
    worker.update(json_of(findings.workers[rank]));
    workers.push_back(worker);
  }
  for (const auto& link : run.links)
    links.push_back({{"name", link.name},
                     {"bytes", link.bytes},
                     {"busy_share", link.busy_share},
                     {"wait_mean_seconds", link.wait_mean}});
  for (const auto& proposal : suggestions)
    tries.push_back({{"why", proposal.why},
                     {"set", proposal.settings},
                     {"changes_training", proposal.changes_training},
                     {"seconds", proposal.seconds}});
  if (why)
    for (const auto& relief : why->reliefs)
      causes.push_back({{"cause", name_of(relief.of)}, {"seconds", relief.seconds}});
  const auto main = why ? why->main_cause(run.seconds) : std::nullopt;
  return {{"folder", given.folder.string()},
          {"status", run.status},
          {"seconds", run.seconds},
          {"train_seconds", run.train_seconds},
          {"evaluation", findings.evaluation},
          {"mean", json_of(findings.mean)},
          {"workers", workers},
          {"slowest_worker", findings.slowest},
          {"slowness", findings.slowness},
          {"contention", why ? json(why->contention) : json(nullptr)},
          {"cause", main ? json(name_of(main->of)) : json(nullptr)},
          {"seconds_without", causes},
          {"busiest_link", findings.busiest ? json(findings.busiest->name) : json(nullptr)},
          {"links", links},
          {"summary", summary(run, findings, why)},
          {"suggestions", tries},
          {"not_simulated", unknown.empty() ? json(nullptr) : json(unknown)}};
}

void explain_run(const explain_run_options& given) {
  const auto result = answers_of(given.folder);
  if (given.json) {
    std::cout << files::json_text(json_of(given, result), {.indent = 2}) << "\n";
    return;
  }
  print_wrapped("", 0, summary(result.run, result.found, result.why));
  std::cout << "\n";
  print_table(table_rows(result.run, result.found));
  print_suggestions(result);
  print_search(given, result);
}

}  // namespace

void add_explain_run(CLI::App& app, int& status) {
  auto* command =
      app.add_subcommand("explain-run", "Explain where the time of a finished run went, and what may make it faster");
  auto given = std::make_shared<explain_run_options>();
  command->add_option("DIR", given->folder, "Results folder of the run")->required();
  command->add_flag("--json", given->json, "Print one JSON object");
  command->callback([given, &status] {
    explain_run(*given);
    status = 0;
  });
}

}  // namespace troupe::apps
