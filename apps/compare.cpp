// troupe compare FILE…: runs several topology files, or one with several settings, and reports how they differ.
#include "troupe/apps/commands.hpp"
#include "troupe/apps/console/messages.hpp"
#include "troupe/apps/console/shell_words.hpp"
#include "troupe/data/formats/utf8.hpp"
#include "troupe/files/error.hpp"
#include "troupe/runtime/supervision/fingerprint.hpp"
#include "troupe/runtime/support/terminal.hpp"
#include "troupe/runtime/support/units.hpp"
#include "troupe/tools/comparing/folder.hpp"
#include "troupe/tools/comparing/perform.hpp"
#include "troupe/tools/comparing/report.hpp"
#include "troupe/tools/comparing/variants.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace troupe::apps {

namespace {

namespace fs = std::filesystem;

struct compare_options {
  comparing::request what;
  std::vector<std::string> varied;
  std::optional<std::uint32_t> repeats;
  std::optional<double> target;
  fs::path out, resume;
  bool overwrite{false}, quiet{false}, json{false};
};

std::string utc(const char* format) {
  const auto now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), format, &parts);
  return text.data();
}

std::map<std::string, std::string> this_machine() {
  auto machine = fingerprint();
  machine["Troupe"] = version();
  machine["CPU cores"] = std::to_string(std::thread::hardware_concurrency());
  return machine;
}

void note_machine(comparing::comparison& what) {
  const auto machine = this_machine();
  auto& known = what.machines;
  if (std::any_of(known.begin(), known.end(), [&](const auto& other) { return differing(machine, other).empty(); }))
    return;
  if (!known.empty() && !what.simulated)
    print_note("warning: the comparison was begun on another machine or with other versions (" +
               differing(machine, known.front()) + "), so the times of its runs cannot be compared");
  known.push_back(machine);
}

void warn(const std::string& text) {
  print_note("warning: " + text);
}

comparing::comparison begin(const compare_options& given, const fs::path& folder) {
  if (given.what.files.empty())
    throw input_error("compare: no topology file is given; expected FILE FILE…, or --resume DIR");
  comparing::check_replaceable(folder, given.overwrite);
  auto expanded = comparing::make_variants(given.what, warn);
  comparing::comparison comparison{.variants = std::move(expanded.variants),
                                   .first_seed = expanded.first_seed,
                                   .repeats = given.repeats.value_or(1),
                                   .target = given.target,
                                   .simulated = given.what.simulated,
                                   .started = utc("%Y-%m-%d %H:%M"),
                                   .machines = {}};
  return comparison;
}

comparing::comparison go_on(const compare_options& given, const fs::path& folder) {
  auto comparison = comparing::read_comparison(folder);
  if (given.what.files.empty() && (!given.what.overrides.empty() || !given.what.varied.empty()))
    throw input_error("--resume " + folder.string() +
                      ": --set and --vary belong to the files of a comparison, which it has stored; leave them out");
  if (given.what.simulated && !comparison.simulated)
    throw input_error("--resume " + folder.string() + ": this comparison is not simulated; leave out --simulate");
  if (!given.what.files.empty()) {
    auto asked = given.what;
    asked.simulated = comparison.simulated;
    asked.measures = false;  // the time of a gradient is known
    comparing::check_same(folder, comparison, comparing::make_variants(asked, warn).variants);
  }
  if (given.repeats && *given.repeats < comparison.repeats)
    throw input_error("--repeat " + std::to_string(*given.repeats) + ": the comparison has " +
                      std::to_string(comparison.repeats) + " repeats; expected at least as many");
  comparison.repeats = given.repeats.value_or(comparison.repeats);
  if (given.target) comparison.target = given.target;
  return comparison;
}

int compare(compare_options& given) {
  auto& signals = signals_of_command();
  for (const auto& text : given.varied) given.what.varied.push_back(comparing::parse_varied(text));
  auto folder = !given.resume.empty() ? given.resume : given.out;
  if (folder.empty()) folder = "runs/compare-" + utc("%Y%m%dT%H%M%SZ");
  auto comparison = given.resume.empty() ? begin(given, folder) : go_on(given, folder);
  const auto lock = comparing::open_folder(folder);
  if (given.resume.empty()) comparing::make_way(folder, given.overwrite);
  note_machine(comparison);
  comparing::write_comparison(folder, comparison);

  comparing::child_runner runner(signals);
  auto& out = given.json ? std::cerr : std::cout;
  const auto live = is_terminal(given.json ? STDERR_FILENO : STDOUT_FILENO);
  const auto failed =
      comparing::perform(comparison, runner, {.folder = folder, .out = given.quiet ? nullptr : &out, .live = live});
  auto runs = comparing::read_runs(folder, comparison);
  const auto report = comparing::make_report(std::move(comparison), std::move(runs));
  comparing::write_reports(folder, report);
  if (given.json) std::cout << comparing::json_of(report) << '\n' << std::flush;
  if (!given.quiet && !given.json) {
    out << '\n'
        << data::printable_utf8(report.found.paragraph([](const std::string& heading) { return heading; }))
        << "\n\nreport in " << for_terminal((folder / "compare.html").string()) << '\n'
        << std::flush;
  }
  if (runner.signal() != 0) {
    print_note("interrupted; continue with: " + program_name() + " compare --resume " + quoted(folder.string()));
    return 128 + runner.signal();
  }
  if (failed == 0) return 0;
  print_error(counted(failed, "run") + " of the comparison failed; see the files " + (folder / "runs").string() +
              "/*/seed-*.log, and try them again with --resume " + quoted(folder.string()));
  return 1;
}

}  // namespace

void add_compare(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("compare", "Run topology files in turns, and report how they differ");
  auto given = std::make_shared<compare_options>();
  command->add_option("FILE", given->what.files, "Topology files; a folder stands for the .toml files in it");
  command
      ->add_option("--repeat", given->repeats, "Number of runs of each file (default: 1), each with the next run.seed")
      ->check(CLI::Range(1u, comparing::most_repeats));
  command
      ->add_option("--vary", given->varied,
                   "Run each file with each of these values of a key, given as section.key=a,b,c; repeatable, which "
                   "gives every combination")
      ->allow_extra_args(false);
  command
      ->add_option("--set", given->what.overrides,
                   "Override a key of every topology file, given as section.key=value; repeatable")
      ->allow_extra_args(false);
  command->add_flag("--simulate", given->what.simulated,
                    "Simulate the runs in virtual time, as `troupe simulate` does");
  command
      ->add_option("--target", given->target, "Validation accuracy, from 0 to 1, to which time and bytes are measured")
      ->check(CLI::Range(0.0, 1.0))
      ->check([](const std::string& text) {  // a range accepts nan
        return text.find_first_not_of("0123456789.eE+-") == std::string::npos
                   ? std::string()
                   : "Value " + text + " not in range 0 to 1";
      });
  auto* out = command->add_option("--out", given->out,
                                  "Folder for the results, which is new or empty (default: runs/compare-<UTC time>)");
  command->add_option("--resume", given->resume, "Continue the comparison in this folder; finished runs are kept")
      ->excludes(out);
  command->add_flag("--overwrite", given->overwrite,
                    "Replace the comparison in the results folder; files that a comparison does not write are kept");
  command->add_flag("--quiet", given->quiet, "Print errors only");
  command->add_flag("--json", given->json, "Print the results as one JSON object, and progress to standard error");
  command->callback([given, &status] { status = compare(*given); });
}

}  // namespace troupe::apps
