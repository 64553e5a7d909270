#include "troupe/tools/tuning/search.hpp"

#include "troupe/files/error.hpp"
#include "troupe/files/input.hpp"
#include "troupe/files/json.hpp"
#include "troupe/files/text.hpp"
#include "troupe/runtime/supervision/fingerprint.hpp"
#include "troupe/runtime/support/claimed_folder.hpp"
#include "troupe/runtime/support/read_text.hpp"
#include "troupe/runtime/support/units.hpp"
#include "troupe/runtime/support/write_aside.hpp"
#include "troupe/runtime/topology/load.hpp"
#include "troupe/runtime/topology/value.hpp"
#include "troupe/tools/comparing/folder.hpp"
#include "troupe/tools/comparing/variants.hpp"
#include "troupe/tools/comparing/words.hpp"

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>
#include <utility>

namespace troupe::tuning {

namespace {

namespace fs = std::filesystem;
using json = files::json;

constexpr int format = 1;
constexpr auto* base_file = "base.toml";

void write_request(const fs::path& folder, const request& what) {
  json varied = json::array();
  for (const auto& [key, values] : what.varied) varied.push_back({{"key", key}, {"values", values}});
  const json described{{"format", format},
                       {"file", what.file},
                       {"base", what.base.file.string()},
                       {"gradient", what.gradient},
                       {"varied", varied},
                       {"target", what.target ? json(*what.target) : json(nullptr)},
                       {"budget", what.budget},
                       {"gradient_seconds", what.real ? json(what.real->gradient) : json(nullptr)},
                       {"evaluation_seconds", what.real ? json(what.real->evaluation) : json(nullptr)}};
  write_aside(folder / description_file, files::json_text(described, {.indent = 2}) + "\n");
  write_aside(folder / base_file, topology::print(what.base));
}

/// Returns the topology as it is trained in the search, whose own settings decide when it ends.
topology::topology as_trained(topology::topology file) {
  file.checkpoint = {};
  file.faults.clear();
  file.evaluate.patience.reset();
  return file;
}

std::vector<contender> contenders_of(candidates found, rehearsal& data, findings& result) {
  std::vector<contender> all;
  std::set<std::string> taken;
  for (auto& each : found.all) {
    auto folder = comparing::folder_name(each.label, taken);
    try {
      constexpr std::uint64_t least_rounds = 4;  // fewer say little about what averaging so seldom costs
      const auto planned = data.planned(each.file, each.family.empty() ? 1 : least_rounds);
      const auto step = data.pace_of(each.file);
      each.file = planned.file;
      auto& one = all.emplace_back();
      one.what = std::move(each);
      one.folder = std::move(folder);
      one.step = step;
      one.steps = planned.steps;
    } catch (const std::runtime_error& reason) {
      result.refused.emplace_back(each.label, reason.what());
    }
  }
  return all;
}

/// Leaves as many in the race as the budget allows to train for long enough to learn something: exact
/// averages, then the fastest of each other family, then the fastest of all.
void cut_to_budget(std::vector<contender>& all, const race_options& how) {
  constexpr double seconds_each = 12;
  const auto most = static_cast<std::size_t>(std::clamp(how.budget * how.parallel / seconds_each, 3.0, 12.0));
  std::vector<contender*> in;
  for (auto& each : all)
    if (each.is_in()) in.push_back(&each);
  std::stable_sort(in.begin(), in.end(), [](auto* a, auto* b) { return a->step.seconds < b->step.seconds; });
  std::stable_partition(in.begin(), in.end(), [](auto* each) { return each->what.family == exact_family; });
  std::set<std::string> families;
  std::stable_partition(in.begin(), in.end(), [&](auto* each) { return families.insert(each->what.family).second; });
  for (std::size_t i = most; i < in.size(); ++i)
    in[i]->out = "slower per step than others, and the budget allows to train only " + grouped(most);
}

/// Returns the link as the interface of each node, or of each worker and server.
std::vector<topology::link_settings> everywhere(topology::link_settings link, const topology::topology& base) {
  link.real = true;
  std::vector<std::string> ends{"*"};
  if (base.nodes.size() > 1) {
    ends.clear();
    for (const auto& node : base.nodes) ends.push_back(node.name);
  }
  std::vector<topology::link_settings> links;
  for (const auto& end : ends) {
    link.at = end;
    links.push_back(link);
  }
  return links;
}

}  // namespace

std::string rate_text(double bytes_per_second) {
  const auto bits = 8 * bytes_per_second;
  for (const auto& [unit, size] : {std::pair{"Gbit/s", 1e9}, std::pair{"Mbit/s", 1e6}})
    if (bits >= size) return human_number(bits / size, 3) + unit;
  return human_number(bits / 1e3, 3) + "kbit/s";
}

std::vector<topology::link_settings> links_of(const std::string& text, const topology::topology& base) {
  const auto comma = text.find(',');
  topology::link_settings link;
  link.bandwidth = topology::parse_rate(text.substr(0, comma));
  link.latency = comma == std::string::npos ? std::optional(std::chrono::microseconds{0})
                                            : topology::parse_delay(text.substr(comma + 1));
  if (!link.bandwidth || !link.latency)
    throw input_error("--link is \"" + text +
                      "\"; expected a bandwidth, or a bandwidth and a latency, such as 50Mbit/s,20ms");
  return everywhere(std::move(link), base);
}

std::vector<topology::link_settings> links_of(const probing::measured_link& measured, const topology::topology& base) {
  topology::link_settings link;
  link.bandwidth = topology::parse_rate(rate_text(std::min(measured.to, measured.from)));
  link.latency = measured.latency;
  link.jitter = measured.jitter;
  return everywhere(std::move(link), base);
}

std::string network_text(const std::vector<topology::link_settings>& links) {
  std::vector<std::string> kinds;
  for (const auto& link : links) {
    std::vector<std::string> parts;
    if (link.bandwidth) parts.push_back(link.bandwidth->text);
    if (link.latency && link.latency->count() > 0) parts.push_back(topology::print_delay(*link.latency));
    if (link.jitter) parts.push_back("up to " + topology::print_delay(*link.jitter) + " of jitter");
    if (link.loss) parts.push_back(human_number(100 * *link.loss, 3) + " % of packets lost");
    const auto kind = text::joined(parts, ", ");
    if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) kinds.push_back(kind);
  }
  return text::listed(kinds, "and");
}

void check_replaceable(const fs::path& folder, bool overwrite) {
  const auto whose = claim_of(folder, description_file);
  if (whose == claim::free) return;
  if (whose == claim::foreign) {
    for (const auto* name : {"runs", "topologies", "best.toml", "tune.html", "tune.md", "tune.csv", base_file})
      if (fs::exists(fs::symlink_status(folder / name)))
        throw input_error(
            (folder / name).string() +
            ": a search needs this name for its own files, and the folder contains no search; choose another "
            "folder with --out");
    if (!overwrite) throw input_error(folder.string() + ": " + foreign_text(folder, description_file, "search"));
    return;
  }
  if (!overwrite)
    throw input_error(
        folder.string() +
        ": the folder contains a search; continue it with --resume, replace it with --overwrite, or choose "
        "another folder with --out");
}

void make_way(const fs::path& folder) {
  if (claim_of(folder, description_file) != claim::ours) return;
  std::error_code missing;
  std::vector<fs::path> runs, topologies;
  for (fs::recursive_directory_iterator entry(folder / "runs", missing), end; !missing && entry != end;
       entry.increment(missing))
    if (entry.depth() == 1 && entry->path().filename().string().starts_with("seed-")) runs.push_back(entry->path());
  for (const auto& run : runs)
    if (run.extension() == ".log")
      fs::remove(run);
    else
      comparing::forget_run(run);
  for (fs::directory_iterator entry(folder / "topologies", missing), end; !missing && entry != end;
       entry.increment(missing))
    if (entry->path().extension() == ".toml") fs::remove(entry->path());
  for (const auto* name : {"tune.html", "tune.md", "tune.csv", "best.toml", base_file, description_file})
    fs::remove(folder / name);
}

request read_request(const fs::path& folder) try {
  const auto path = folder / description_file;
  if (!fs::exists(path))
    throw input_error(folder.string() + ": this folder does not contain a search (" + description_file +
                      "); expected the folder that `troupe tune` has written");
  const auto from = files::parse_json(read_text(path));
  if (from.at("format") != format)
    throw input_error(path.string() + ": its format is " + files::json_text(from.at("format")) +
                      ", but this version reads " + std::to_string(format) +
                      "; continue the search with the version that began it");
  request what{.file = from.at("file"), .gradient = from.at("gradient"), .budget = from.at("budget")};
  what.base = topology::parse(read_text(folder / base_file), from.at("base").get<std::string>());
  for (const auto& entry : from.at("varied"))
    what.varied.push_back({.key = entry.at("key"), .values = entry.at("values")});
  if (const auto& target = from.at("target"); !target.is_null()) what.target = target.get<double>();
  if (const auto& gradient = from.at("gradient_seconds"); !gradient.is_null())
    what.real = {.gradient = gradient, .evaluation = from.at("evaluation_seconds")};
  return what;
} catch (const files::unreadable& problem) {
  throw input_error(problem.what());
} catch (const json::exception&) {
  throw input_error(
      (folder / description_file).string() +
      ": not the description of a search as `troupe tune` writes it; begin a new search without --resume");
}

findings search(request what, const fs::path& folder, comparing::child_runner& runner,
                const std::function<void(const std::string&)>& say) {
  const auto begin = std::chrono::steady_clock::now();
  const auto since_begin = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  write_request(folder, what);
  const auto device = std::exchange(what.base.workers.device, {"cpu"});
  rehearsal data(what.base);
  if (const auto real = data.measure(what.base); !what.real) what.real = real;
  auto known = what;
  known.base.workers.device = device;
  write_request(folder, known);

  findings result{.file = what.file,
                  .network = network_text(what.base.links),
                  .target = what.target,
                  .budget = what.budget,
                  .gradient = what.gradient,
                  .device = device,
                  .machine = names_of_machine()};
  auto found = what.varied.empty() ? usual_candidates(what.base) : varied_candidates(what.base, what.varied);
  result.refused = std::move(found.refused);
  const auto count = found.all.size();
  say("timing " + counted(count, "candidate"));
  auto all = contenders_of(std::move(found), data, result);
  fs::create_directories(folder / "topologies");
  for (const auto& each : all)
    write_aside(folder / "topologies" / (each.folder + ".toml"), topology::print(as_trained(each.what.file)));
  constexpr double share_of_trainings = 0.8;
  const race_options how{.folder = folder,
                         .target = what.target,
                         .budget = share_of_trainings * what.budget,
                         .parallel = std::clamp(std::thread::hardware_concurrency(), 1u, 8u),
                         .real = *what.real,
                         .say = say};
  cut_by_pace(all);
  cut_to_budget(all, how);
  race(all, runner, how);
  result.order = ranking(all, how);
  result.all = std::move(all);
  result.took = since_begin();
  result.is_whole = runner.signal() == 0;
  if (result.all.empty())
    throw input_error(what.file + ": none of the candidates can be simulated; see the reasons:\n  " +
                      (result.refused.empty() ? "" : result.refused.front().second));
  write_reports(folder, result);
  return result;
}

}  // namespace troupe::tuning
