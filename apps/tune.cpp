// troupe tune FILE --link BANDWIDTH,LATENCY: which exchange trains the model of a file soonest on this network.
#include "troupe/apps/commands.hpp"
#include "troupe/apps/console/messages.hpp"
#include "troupe/apps/console/shell_words.hpp"
#include "troupe/data/formats/utf8.hpp"
#include "troupe/files/error.hpp"
#include "troupe/net/channels/endpoint.hpp"
#include "troupe/runtime/support/read_text.hpp"
#include "troupe/runtime/support/terminal.hpp"
#include "troupe/runtime/support/units.hpp"
#include "troupe/runtime/topology/load.hpp"
#include "troupe/runtime/topology/value.hpp"
#include "troupe/tools/comparing/folder.hpp"
#include "troupe/tools/comparing/variants.hpp"
#include "troupe/tools/probing/probe.hpp"
#include "troupe/tools/tuning/search.hpp"

#include <CLI/CLI.hpp>

#include <array>
#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::apps {

namespace {

namespace fs = std::filesystem;

struct tune_options {
  fs::path file, links, out, resume;
  std::string link, probe, listen;
  std::vector<std::string> overrides, varied;
  std::optional<double> target;
  std::string budget{"2min"};
  bool overwrite{false}, quiet{false}, json{false};
};

std::string utc_now() {
  const auto now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y%m%dT%H%M%SZ", &parts);
  return text.data();
}

endpoint address_of(const std::string& option, const std::string& text) {
  const auto where = parse_endpoint(text);
  if (!where || where->port == 0)
    throw input_error(option + " is \"" + text + "\"; expected an address and a port, such as 10.0.0.2:4800");
  return *where;
}

/// Answers probes of the network to this machine until a signal ends the process.
[[noreturn]] void answer_probes(const std::string& listen) {
  const auto where = address_of("--listen", listen);
  probing::answerer machine(where);
  std::cout << "answering probes at " << print_endpoint(where) << "; measure the network from another machine with "
            << program_name() << " tune --probe " << print_endpoint(where) << ", and end this with Ctrl-C\n"
            << std::flush;
  for (;;) {
    const auto [address, problem] = machine.answer_one();
    std::cout << address << (problem.empty() ? ": measured" : ": ended, because " + problem) << '\n' << std::flush;
  }
}

std::string measured_text(const std::string& where, const probing::measured_link& found) {
  return tuning::rate_text(found.to) + " to " + where + ", " + tuning::rate_text(found.from) +
         " from there, a latency of " + topology::print_delay(found.latency) + ", a jitter of " +
         topology::print_delay(found.jitter);
}

/// Measures the network to another machine, and prints what was found.
std::vector<topology::link_settings> measured_links(const tune_options& given, const topology::topology& base) {
  const auto found = probing::measure(address_of("--probe", given.probe));
  if (!given.quiet) std::cerr << measured_text(given.probe, found) << '\n' << std::flush;
  return tuning::links_of(found, base);
}

/// Prints the network to another machine as a section of a topology file.
int print_network(const tune_options& given) {
  for (const auto& link : measured_links(given, {}))
    std::cout << "[[link]]\nat = " << topology::to_toml(*link.at)
              << "\nbandwidth = " << topology::to_toml(link.bandwidth->text)
              << "\nlatency = " << topology::to_toml(topology::print_delay(*link.latency))
              << "\njitter = " << topology::to_toml(topology::print_delay(*link.jitter)) << "\nreal = true\n";
  return 0;
}

/// Returns the topology with the links of the network, which are real.
topology::topology with_network(const tune_options& given) {
  auto base = topology::load(given.file, given.overrides);
  if (!given.links.empty()) {
    const auto file = topology::to_toml(fs::absolute(given.file).string());
    base = topology::parse("extends = " + file + "\n" + read_text(given.links), given.links, given.overrides);
    base.file = given.file;
  }
  if (!given.link.empty()) base.links = tuning::links_of(given.link, base);
  if (!given.probe.empty()) base.links = measured_links(given, base);
  if (base.links.empty())
    throw input_error(
        given.file.string() +
        " describes no network; give its bandwidth and latency with --link, such as --link 50Mbit/s,20ms, "
        "or [[link]] sections in a file with --links, or measure it with --probe");
  for (auto& link : base.links) link.real = true;
  return base;
}

tuning::request begin(const tune_options& given, const fs::path& folder) {
  if (given.file.empty()) throw input_error("tune: no topology file is given; expected FILE, or --resume DIR");
  tuning::check_replaceable(folder, given.overwrite);
  if (given.target && !std::isfinite(*given.target)) throw input_error("--target is not a number from 0 to 1");
  const auto budget = topology::parse_duration(given.budget);
  if (!budget) throw input_error("--budget is \"" + given.budget + "\"; expected a duration such as 90s or 2min");
  tuning::request what{.file = given.file.string(), .base = with_network(given), .target = given.target};
  what.gradient = what.base.simulate.gradient;
  what.budget = std::chrono::duration<double>(*budget).count();
  if (!what.target) what.target = what.base.evaluate.target_accuracy;
  for (const auto& text : given.varied) what.varied.push_back(comparing::parse_varied(text));
  if (!what.varied.empty())
    tuning::varied_candidates(what.base, what.varied);  // finds mistakes before anything is written
  return what;
}

int tune(const tune_options& given) {
  if (!given.listen.empty()) answer_probes(given.listen);
  if (!given.probe.empty() && given.file.empty() && given.resume.empty()) return print_network(given);
  auto& signals = signals_of_command();
  auto folder = !given.resume.empty() ? given.resume : given.out;
  if (folder.empty()) folder = "runs/tune-" + utc_now();
  if (!given.resume.empty() && !given.file.empty())
    throw input_error("--resume " + folder.string() + ": the search has stored its file and settings; leave out FILE");
  auto what = given.resume.empty() ? begin(given, folder) : tuning::read_request(folder);
  const auto lock = comparing::open_folder(folder);
  if (given.resume.empty()) tuning::make_way(folder);
  comparing::child_runner runner(signals);
  auto& out = given.json ? std::cerr : std::cout;
  const auto found = tuning::search(std::move(what), folder, runner, [&](const std::string& line) {
    if (!given.quiet) out << line << '\n' << std::flush;
  });
  if (given.json) std::cout << tuning::json_of(found) << '\n' << std::flush;
  if (!given.quiet && !given.json) {
    out << '\n';
    for (const auto& sentence : tuning::conclusion_of(found)) out << data::printable_utf8(sentence) << '\n';
    out << "\nreport in " << for_terminal((folder / "tune.html").string()) << ", topology in "
        << for_terminal((folder / "best.toml").string()) << '\n'
        << std::flush;
  }
  if (runner.signal() == 0) return found.has_answer() ? 0 : 1;
  print_note("interrupted; continue with: " + program_name() + " tune --resume " + quoted(folder.string()));
  return 128 + runner.signal();
}

}  // namespace

void add_tune(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("tune", "Find the exchange that trains a model soonest on a network");
  auto given = std::make_shared<tune_options>();
  command->add_option("FILE", given->file, "Topology file whose model, data and workers are trained");
  auto* link = command->add_option(
      "--link", given->link,
      "The network: the bandwidth of each node, or of each worker and server if the file has no nodes, "
      "and optionally the latency, such as 50Mbit/s,20ms");
  auto* links = command->add_option(
      "--links", given->links,
      "A topology file with the [[link]] sections of the network; its other sections replace those of FILE");
  auto* probe =
      command
          ->add_option(
              "--probe", given->probe,
              "Measure the network to another machine, on which `troupe tune --listen` answers at this address: "
              "bandwidth each way, latency and jitter. Without FILE, it is only printed, as a [[link]] section")
          ->excludes(link)
          ->excludes(links);
  auto* listen = command->add_option("--listen", given->listen,
                                     "Answer the probes of other machines at this address, until the command is "
                                     "interrupted, instead of searching");
  command
      ->add_option("--target", given->target,
                   "Validation accuracy, from 0 to 1, that is to be reached soonest (default: "
                   "evaluate.target_accuracy of the file; if it has none, the best accuracy is sought)")
      ->check(CLI::Range(0.0, 1.0));
  command
      ->add_option("--vary", given->varied,
                   "Try these values of a key, given as section.key=a,b,c, instead of the usual exchanges; repeatable, "
                   "which tries every combination")
      ->allow_extra_args(false);
  command->add_option("--budget", given->budget, "Time for the search")->capture_default_str();
  command
      ->add_option("--set", given->overrides,
                   "Override a key of the topology file, given as section.key=value; repeatable")
      ->allow_extra_args(false);
  auto* out = command->add_option("--out", given->out,
                                  "Folder for the results, which is new or empty (default: runs/tune-<UTC time>)");
  command->add_option("--resume", given->resume, "Continue the search in this folder; finished trainings are kept")
      ->excludes(out)
      ->excludes(link)
      ->excludes(links)
      ->excludes(probe);
  listen->excludes(link)->excludes(links)->excludes(probe);
  command->add_flag("--overwrite", given->overwrite,
                    "Replace the search in the results folder; files that a search does not write are kept");
  command->add_flag("--quiet", given->quiet, "Print errors only");
  command->add_flag("--json", given->json, "Print the results as one JSON object, and progress to standard error");
  command->callback([given, &status] { status = tune(*given); });
}

}  // namespace troupe::apps
