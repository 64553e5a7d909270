#include "troupe/tools/comparing/folder.hpp"

#include "troupe/files/error.hpp"
#include "troupe/files/input.hpp"
#include "troupe/files/json.hpp"
#include "troupe/runtime/support/claimed_folder.hpp"
#include "troupe/runtime/support/read_text.hpp"
#include "troupe/runtime/support/write_aside.hpp"
#include "troupe/runtime/telemetry/run_folder.hpp"
#include "troupe/tools/comparing/measure.hpp"
#include "troupe/tools/comparing/variants.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <set>
#include <stdexcept>
#include <system_error>
#include <unistd.h>

namespace troupe::comparing {

namespace {

namespace fs = std::filesystem;
using json = files::json;

constexpr int format = 1;

/// Folders of a comparison, in addition to its description and its reports.
constexpr std::array subfolders{"runs", "topologies", "wirings", "pictures"};

fs::path wiring_of(const fs::path& folder, const variant& what) {
  return folder / "wirings" / (what.folder + ".svg");
}

json described(const comparison& what) {
  json variants = json::array();
  for (const auto& candidate : what.variants)
    variants.push_back({{"file", candidate.file},
                        {"varied", candidate.varied},
                        {"label", candidate.label},
                        {"folder", candidate.folder},
                        {"given", candidate.given}});
  return {{"format", format},
          {"started", what.started},
          {"first_seed", what.first_seed},
          {"repeats", what.repeats},
          {"target", what.target ? json(*what.target) : json(nullptr)},
          {"simulated", what.simulated},
          {"machines", what.machines},
          {"variants", variants}};
}

/// Returns an integer from a description. Throws std::runtime_error if it is not between `least` and `most`.
std::uint64_t count_in(const json& from, const char* key, std::uint64_t least, std::uint64_t most) {
  const auto& value = from.at(key);
  if (!value.is_number_unsigned() || value < least || value > most)
    throw std::runtime_error(std::string(key) + " is " + files::json_text(value) + "; expected a number from " +
                             std::to_string(least) + " to " + std::to_string(most));
  return value;
}

/// Returns the comparison described by `from`. Throws json::exception for values of the wrong type.
comparison comparison_of(const json& from) {
  constexpr auto last_seed = std::numeric_limits<std::int64_t>::max() - most_repeats;
  comparison result{.variants = {},
                    .first_seed = count_in(from, "first_seed", 0, last_seed),
                    .repeats = static_cast<std::uint32_t>(count_in(from, "repeats", 1, most_repeats)),
                    .target = std::nullopt,
                    .simulated = from.at("simulated"),
                    .started = from.at("started"),
                    .machines = from.at("machines")};
  if (const auto& target = from.at("target"); !target.is_null()) {
    result.target = target.get<double>();
    if (!(*result.target >= 0 && *result.target <= 1))
      throw std::runtime_error("target is " + files::json_text(target) + "; expected a number from 0 to 1");
  }
  for (const auto& entry : from.at("variants"))
    result.variants.push_back({.file = entry.at("file"),
                               .varied = entry.at("varied"),
                               .label = entry.at("label"),
                               .folder = entry.at("folder"),
                               .topology = {},
                               .settings = {},
                               .given = entry.value("given", std::set<std::string>{}),
                               .wiring = {}});
  return result;
}

/// Removes a folder if it is empty.
void remove_if_empty(const fs::path& folder) {
  std::error_code not_empty;
  if (fs::is_directory(folder, not_empty)) fs::remove(folder, not_empty);
}

/// Returns the pictures of a report: files whose names begin like those of its figures.
std::vector<fs::path> pictures_in(const fs::path& folder) {
  std::error_code missing;
  std::vector<fs::path> pictures;
  for (fs::directory_iterator entry(folder / "pictures", missing), end; !missing && entry != end;
       entry.increment(missing))
    for (const auto* name : {"accuracy-", "loss-", "target-", "cost-"})
      if (entry->path().extension() == ".svg" && entry->path().filename().string().starts_with(name))
        pictures.push_back(entry->path());
  return pictures;
}

/// Returns whether a name is that of a file in a folder, and not a path to somewhere else.
bool is_plain(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos;
}

/// Reads the description of the comparison in a folder, without the topologies. Throws input_error if it is damaged.
comparison described_in(const fs::path& folder) try {
  const auto path = folder / description_file;
  const auto from = files::parse_json(read_text(path));
  if (from.at("format") != format)
    throw input_error(path.string() + ": its format is " + files::json_text(from.at("format")) +
                      ", but this version reads " + std::to_string(format) +
                      "; continue the comparison with the version that began it");
  auto result = comparison_of(from);
  for (const auto& candidate : result.variants)
    if (!is_plain(candidate.folder))
      throw std::runtime_error("\"" + candidate.folder + "\" is not the name of a folder");
  if (result.variants.empty()) throw std::runtime_error("it has no variants");
  return result;
} catch (const input_error&) {
  throw;
} catch (const files::unreadable& problem) {
  throw input_error(problem.what());
} catch (const json::exception&) {
  throw input_error((folder / description_file).string() +
                    ": not the description of a comparison as `troupe compare` writes it; begin a new comparison "
                    "without --resume");
} catch (const std::exception& reason) {
  throw input_error((folder / description_file).string() + ": cannot be read: " + reason.what() +
                    "; begin a new comparison in another folder");
}

}  // namespace

std::shared_ptr<held_folder> open_folder(const fs::path& folder) {
  const auto refuse = [&](const std::string& reason) {
    throw input_error(folder.string() + ": cannot write the results of the comparison to this folder: " + reason +
                      "; choose another folder with --out");
  };
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) refuse(failed.message());
  auto held = std::make_shared<held_folder>();
  try {
    if (!held->lock(folder)) refuse("another comparison is writing into it");
  } catch (const std::system_error& reason) {
    refuse(reason.code().message());
  }
  if (access(folder.c_str(), W_OK) != 0) refuse(std::strerror(errno));
  return held;
}

void check_replaceable(const fs::path& folder, bool overwrite) {
  const auto whose = claim_of(folder, description_file);
  if (whose == claim::free) return;
  if (whose == claim::ours) {
    if (!overwrite)
      throw input_error(folder.string() +
                        ": the folder contains a comparison; continue it with --resume, replace it with --overwrite, "
                        "or choose another folder with --out");
    described_in(folder);
    return;
  }
  for (const auto* name : subfolders)
    if (exists(fs::symlink_status(folder / name)))
      throw input_error((folder / name).string() +
                        ": a comparison needs this name for its own files, and the folder contains no comparison; "
                        "choose another folder with --out");
  if (!overwrite) throw input_error(folder.string() + ": " + foreign_text(folder, description_file, "comparison"));
}

void make_way(const fs::path& folder, bool overwrite) {
  check_replaceable(folder, overwrite);
  if (claim_of(folder, description_file) != claim::ours) return;
  for (const auto& candidate : described_in(folder).variants) {
    fs::remove(topology_of(folder, candidate));
    fs::remove(wiring_of(folder, candidate));
    const auto runs = folder / "runs" / candidate.folder;
    if (!fs::is_directory(runs)) continue;
    std::vector<fs::path> entries;
    for (const auto& entry : fs::directory_iterator(runs)) entries.push_back(entry.path());
    for (const auto& entry : entries) {
      if (!entry.filename().string().starts_with("seed-")) continue;
      if (fs::is_directory(entry)) forget_run(entry);
      if (entry.extension() == ".log") fs::remove(entry);
    }
    remove_if_empty(runs);
  }
  for (const auto& picture : pictures_in(folder)) fs::remove(picture);
  for (const auto* name : subfolders) remove_if_empty(folder / name);
  fs::remove(folder / description_file);
}

void forget_run(const fs::path& out) {
  if (fs::is_directory(out)) telemetry::remove_outputs(out);
  remove_if_empty(out);
  fs::remove(log_of(out));
}

fs::path topology_of(const fs::path& folder, const variant& what) {
  return folder / "topologies" / (what.folder + ".toml");
}

void write_comparison(const fs::path& folder, const comparison& what) {
  // Written first, so that the folder is recognised as that of a comparison even if this process ends halfway.
  write_aside(folder / description_file, files::json_text(described(what), {.indent = 2}) + "\n");
  fs::create_directories(folder / "topologies");
  fs::create_directories(folder / "wirings");
  for (const auto& candidate : what.variants) {
    write_aside(topology_of(folder, candidate), candidate.topology);
    write_aside(wiring_of(folder, candidate), candidate.wiring);
  }
}

comparison read_comparison(const fs::path& folder) try {
  std::error_code failed;
  if (!exists(fs::symlink_status(folder / description_file, failed)))
    throw input_error(folder.string() + ": this folder does not contain a comparison (" + description_file +
                      "); expected the folder that `troupe compare` has written");
  auto result = described_in(folder);
  for (auto& candidate : result.variants) {
    candidate.topology = read_text(topology_of(folder, candidate));
    candidate.wiring = read_text(wiring_of(folder, candidate));
    read_settings(candidate, topology_of(folder, candidate), result.simulated);
  }
  return result;
} catch (const input_error&) {
  throw;
} catch (const files::unreadable& problem) {
  throw input_error(problem.what());
} catch (const std::exception& reason) {
  throw input_error((folder / description_file).string() + ": cannot be read: " + reason.what() +
                    "; begin a new comparison without --resume");
}

std::vector<made_run> read_runs(const fs::path& folder, const comparison& what) {
  auto order = runs_of(what);
  std::sort(order.begin(), order.end(), [](const planned_run& a, const planned_run& b) {
    return std::pair(a.variant, a.repeat) < std::pair(b.variant, b.repeat);
  });
  std::vector<made_run> runs;
  for (const auto& run : order)
    if (auto result = read_result(folder / folder_of(what, run), what.target))
      runs.push_back({.run = run, .result = std::move(*result)});
  return runs;
}

void check_same(const fs::path& folder, const comparison& what, const std::vector<variant>& asked) {
  const auto refuse = [&](const std::string& reason) {
    throw input_error(folder.string() + ": cannot continue this comparison: " + reason +
                      "; leave out the files and settings to continue it as it was begun, or choose another --out");
  };
  if (asked.size() != what.variants.size())
    refuse("it compares " + std::to_string(what.variants.size()) + " variants, and the command line describes " +
           std::to_string(asked.size()));
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const auto &ours = what.variants[i], &theirs = asked[i];
    const auto gradient = theirs.settings.find("simulate.gradient");
    const auto is_measured = [&](const std::string& key) {
      return key == "simulate.gradient" && gradient != theirs.settings.end() && gradient->second == "\"measure\"";
    };
    if (ours.label != theirs.label) refuse("it compares \"" + ours.label + "\" instead of \"" + theirs.label + "\"");
    for (const auto& [from, to] : {std::pair(&ours.settings, &theirs.settings), {&theirs.settings, &ours.settings}})
      for (const auto& [key, value] : *from)
        if (const auto found = to->find(key); !is_measured(key) && (found == to->end() || found->second != value))
          refuse(key + " of " + ours.label + " has changed since it began");
  }
}

}  // namespace troupe::comparing
