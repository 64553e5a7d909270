#include "troupe/tools/comparing/variants.hpp"

#include "troupe/data/formats/utf8.hpp"
#include "troupe/runtime/emulation/costs.hpp"
#include "troupe/runtime/launch/launcher.hpp"
#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/simulation/simulate_run.hpp"
#include "troupe/runtime/support/claimed_folder.hpp"
#include "troupe/runtime/support/units.hpp"
#include "troupe/runtime/telemetry/run_folder.hpp"
#include "troupe/runtime/topology/canonical.hpp"
#include "troupe/runtime/topology/load.hpp"
#include "troupe/tools/comparing/folder.hpp"
#include "troupe/tools/drawing/drawing.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <utility>

namespace troupe::comparing {

namespace {

namespace fs = std::filesystem;

/// Splits text at commas that are not inside brackets or quotes.
std::vector<std::string> split_values(const std::string& text) {
  std::vector<std::string> values(1);
  int depth = 0;
  char quote = 0;
  for (const char c : text) {
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',' && depth == 0) {
      values.emplace_back();
      continue;
    }
    values.back() += c;
  }
  return values;
}

/// Returns the files, with each folder replaced by the topology files in it.
std::vector<fs::path> files_of(const std::vector<fs::path>& given) {
  std::vector<fs::path> files;
  for (const auto& path : given) {
    std::error_code failed;
    if (!is_directory(path, failed)) {
      files.push_back(path);
      continue;
    }
    if (claim_of(path, telemetry::run_marker) == claim::ours || exists(path / "metrics.jsonl"))
      throw input_error(path.string() +
                        ": the folder contains the results of a run, but a comparison makes its own runs; "
                        "expected topology files, such as " +
                        (path / "topology.toml").string());
    if (claim_of(path, description_file) == claim::ours)
      throw input_error(path.string() + ": the folder contains a comparison; continue it with --resume " +
                        path.string());
    const auto first = static_cast<std::ptrdiff_t>(files.size());
    for (fs::directory_iterator entry(path, failed), end; !failed && entry != end; entry.increment(failed))
      if (entry->path().extension() == ".toml") files.push_back(entry->path());
    if (failed)
      throw input_error(path.string() + ": cannot read this folder (" + failed.message() + "); check its permissions");
    if (files.size() == static_cast<std::size_t>(first))
      throw input_error(path.string() + ": the folder contains no .toml file; expected topology files");
    std::sort(files.begin() + first, files.end());
  }
  return files;
}

/// Sets label and folder of each variant. Throws input_error if two variants are the same.
void name_all(std::vector<variant>& variants) {
  std::map<std::string, std::set<std::string>> files_by_stem;
  for (const auto& candidate : variants) files_by_stem[fs::path(candidate.file).stem().string()].insert(candidate.file);
  std::map<std::string, std::set<std::string>> keys_by_last;
  const auto last_of = [](const std::string& key) { return key.substr(key.rfind('.') + 1); };
  for (const auto& candidate : variants)
    for (const auto& [key, value] : candidate.varied) keys_by_last[last_of(key)].insert(key);

  std::set<std::string> labels, folders;
  for (auto& candidate : variants) {
    const auto stem = fs::path(candidate.file).stem().string();
    candidate.label = files_by_stem.at(stem).size() > 1 ? candidate.file : stem;
    for (const auto& [key, value] : candidate.varied)
      candidate.label += ", " + (keys_by_last.at(last_of(key)).size() > 1 ? key : last_of(key)) + "=" + value;
    if (!labels.insert(candidate.label).second)
      throw input_error(candidate.file_column() + " is given twice; expected different topology files or settings");
    candidate.folder = folder_name(candidate.label, folders);
  }
}

/// Loads a file with overrides and varied settings. Throws input_error, whose text names a varied setting as --vary.
topology::topology load(const fs::path& file, std::vector<std::string> overrides,
                        const std::vector<std::pair<std::string, std::string>>& varied) try {
  for (const auto& [key, value] : varied) overrides.push_back(key + "=" + value);
  return topology::load(file, overrides);
} catch (const input_error& reason) {
  throw input_error(with_vary(reason.what(), overrides.size() - varied.size(), varied));
}

/// Makes the plan of a variant. Throws input_error, which names the topology file.
plan plan_of(const topology::topology& file, const data::dataset_pair& data, const std::string& name) try {
  return make_plan(file, data_facts(data, file));
} catch (const input_error& reason) {
  const std::string text = reason.what();
  throw input_error(text.starts_with(name) ? text : name + ": " + text);
}

/// Returns the keys of exchanges that a file sets, with the numbers of the exchanges in place of their names.
std::set<std::string> given_in(const topology::topology& file) {
  std::set<std::string> keys;
  for (std::size_t i = 0; i < file.exchanges.size(); ++i) {
    const auto named = "exchange." + file.exchanges[i].name + ".";
    for (const auto& [key, place] : file.given.places)
      if (key.starts_with(named)) keys.insert("exchange." + std::to_string(i) + "." + key.substr(named.size()));
  }
  return keys;
}

/// The time of a gradient, measured once for all variants whose workers compute the same.
class gradient_times {
 public:
  void settle(plan& plan, const data::dataset_pair& data) {
    auto& gradient = plan.file.simulate.gradient;
    if (gradient != "measure") return;
    std::string key;
    for (const auto& [name, value] : topology::values_of(topology::canonical(plan.file)))
      if (name.starts_with("model.") || name.starts_with("data.") || name.starts_with("augment.") ||
          name == "run.threads" || name == "workers.precision")
        key += name + "=" + value + "\n";
    key += std::to_string(plan.file.data.batch_size) + " " + std::to_string(emulation::lanes_at_work(plan));
    if (const auto entry = known_.find(key); entry != known_.end()) {
      gradient = entry->second;
      return;
    }
    models::buffer_pool pool;
    const auto initial = initial_weights(plan, pool);
    settle_durations(plan, data, initial, pool);
    known_.emplace(key, gradient);
  }

 private:
  std::map<std::string, std::string> known_;
};

}  // namespace

void check_count(std::size_t files, const std::vector<varied_key>& varied) {
  auto count = static_cast<double>(files);
  auto product = counted(files, "file");
  for (const auto& [key, values] : varied) {
    count *= static_cast<double>(values.size());
    product += " × " + grouped(values.size()) + " of " + key;
  }
  if (count <= static_cast<double>(most_variants)) return;
  throw input_error((varied.empty() ? "FILE: " : "--vary: ") + product + " are too many variants; expected at most " +
                    grouped(most_variants) + " in one comparison");
}

std::vector<std::vector<std::pair<std::string, std::string>>> grid(const std::vector<varied_key>& varied) {
  std::set<std::string> keys;
  for (const auto& option : varied)
    if (!keys.insert(option.key).second)
      throw input_error("--vary " + option.key +
                        " is given twice; expected all its values in one option, such as --vary " + option.key +
                        "=a,b");
  std::vector<std::vector<std::pair<std::string, std::string>>> points(1);
  for (const auto& [key, values] : varied) {
    std::vector<std::vector<std::pair<std::string, std::string>>> longer;
    for (const auto& so_far : points)
      for (const auto& value : values) {
        longer.push_back(so_far);
        longer.back().emplace_back(key, value);
      }
    points = std::move(longer);
  }
  return points;
}

std::string folder_name(const std::string& label, std::set<std::string>& taken) {
  std::string folder;
  for (const char c : label)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '=' || c == '-')
      folder += c;
    else if (!folder.empty() && folder.back() != '-')
      folder += '-';
  while (folder.starts_with('.')) folder.erase(0, 1);
  auto name = folder = folder.substr(0, 100);
  for (int i = 2; name.empty() || !taken.insert(name).second; ++i) name = folder + "-" + std::to_string(i);
  return name;
}

std::string with_vary(std::string text, std::size_t others, const setting_point& varied) {
  for (std::size_t i = 0; i < varied.size(); ++i) {
    const auto number = "--set #" + std::to_string(others + i + 1) + ":";
    for (auto at = text.find(number); at != std::string::npos; at = text.find(number, at + 1))
      text.replace(at, number.size(), "--vary " + varied[i].first + "=" + varied[i].second + ":");
  }
  return text;
}

varied_key parse_varied(const std::string& text) {
  const auto equals = text.find('=');
  varied_key varied{.key = text.substr(0, equals), .values = {}};
  if (equals != std::string::npos) varied.values = split_values(text.substr(equals + 1));
  const auto& values = varied.values;
  if (varied.key.empty() || values.empty() || std::find(values.begin(), values.end(), "") != values.end())
    throw input_error("--vary " + text + " has no values; expected key=a,b,c, such as optimizer.lr=0.01,0.1");
  if (varied.key == "run.seed")
    throw input_error("--vary run.seed: the seed belongs to the repeats; use --repeat N instead");
  return varied;
}

void read_settings(variant& what, const fs::path& file, bool simulated) {
  const auto parsed = topology::parse(what.topology, file);
  what.settings =
      topology::values_of(simulated ? topology::canonical_of_simulation(parsed) : topology::canonical(parsed));
  what.settings.erase("run.seed");
}

variants_made make_variants(const request& what, const std::function<void(const std::string&)>& warn) {
  variants_made result;
  std::vector<fs::path> paths;
  const auto files = files_of(what.files);
  check_count(files.size(), what.varied);
  for (const auto& file : files)
    for (auto& point : grid(what.varied)) {
      paths.push_back(file);
      variant candidate;
      candidate.file = data::printable_utf8(file.string());
      candidate.varied = std::move(point);
      result.variants.push_back(std::move(candidate));
    }
  name_all(result.variants);

  gradient_times times;
  std::optional<std::uint64_t> seed;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    auto& candidate = result.variants[i];
    const auto file = load(paths[i], what.overrides, candidate.varied);
    const auto data = load_data(file);
    auto plan = plan_of(file, data, candidate.file);
    for (const auto& warning : plan.warnings) warn(candidate.label + ": " + warning);
    candidate.wiring = svg_of(plan);
    if (!seed) seed = file.run.seed;
    auto run = file;  // without what the plan derives from this machine
    if (what.simulated) {
      if (what.measures) times.settle(plan, data);
      run.simulate = plan.file.simulate;
    }
    candidate.topology = topology::print(run);
    candidate.given = given_in(file);
    read_settings(candidate, paths[i], what.simulated);
  }
  result.first_seed = seed.value_or(0);
  return result;
}

}  // namespace troupe::comparing
