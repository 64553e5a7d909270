#include "troupe/runtime/telemetry/times_file.hpp"

#include "troupe/runtime/support/units.hpp"
#include "troupe/runtime/topology/error.hpp"
#include "troupe/runtime/topology/suggest.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

namespace troupe::telemetry {

namespace fs = std::filesystem;

namespace {

using placeholder = std::pair<std::string, std::string>;

std::vector<placeholder> placeholders(const plan& plan) {
  const auto& file = plan.file;
  const auto epochs = static_cast<double>(plan.steps) / static_cast<double>(plan.steps_per_epoch);
  return {{"ranks", std::to_string(plan.workers)},
          {"batch", std::to_string(plan.sampling.batch_size)},
          {"lr", human_number(file.optimizer.lr)},
          {"momentum", human_number(file.optimizer.momentum)},
          {"warmup", human_number(file.optimizer.warmup_epochs)},
          {"seed", std::to_string(file.run.seed)},
          {"epochs", human_number(epochs)},
          {"model", plan.model->name},
          {"data", plan.data->name},
          {"optimizer", file.optimizer.name}};
}

[[noreturn]] void refuse(const std::string& pattern, const std::string& reason) {
  throw input_error("--csv " + topology::to_toml(pattern) + ": " + reason);
}

std::string names_of(const std::vector<placeholder>& known) {
  std::vector<std::string> names;
  for (const auto& [name, value] : known) names.push_back("{" + name + "}");
  return topology::listed(names);
}

const std::string& value_of(const std::string& name, const std::string& pattern,
                            const std::vector<placeholder>& known) {
  std::vector<std::string> names;
  for (const auto& one : known) {
    if (one.first == name) return one.second;
    names.push_back(one.first);
  }
  refuse(pattern,
         "{" + name + "} is no placeholder; expected " + names_of(known) + topology::did_you_mean(name, names));
}

}  // namespace

fs::path times_path(const std::string& pattern, const plan& plan) {
  const auto known = placeholders(plan);
  std::string path;
  for (std::size_t at = 0; at < pattern.size();) {
    const auto brace = std::min(pattern.find_first_of("{}", at), pattern.size());
    path += pattern.substr(at, brace - at);
    if (brace == pattern.size()) break;
    const auto end = pattern.find_first_of("{}", brace + 1);
    if (pattern[brace] == '}' || end == std::string::npos || pattern[end] == '{')
      refuse(pattern, "a brace stands without its other one; expected placeholders such as " + names_of(known));
    path += value_of(pattern.substr(brace + 1, end - brace - 1), pattern, known);
    at = end + 1;
  }
  return path;
}

void make_way_for(const fs::path& path, bool overwrite, const fs::path& folder, const fs::path& topology) {
  std::error_code failed;
  if (fs::equivalent(path, topology, failed))
    throw input_error(path.string() + ": is the topology file itself; name another file with --csv");
  if (fs::weakly_canonical(fs::absolute(path).parent_path(), failed) ==
          fs::weakly_canonical(fs::absolute(folder), failed) &&
      path.extension() != ".csv")
    throw input_error(path.string() + ": lies among the results of the run; expected a name that ends in .csv there");
  if (path.filename() == "epochs.csv")
    throw input_error(path.string() + ": is what a run calls a file of its own; name another file with --csv");
  if (!path.has_filename() || fs::is_directory(path, failed))
    throw input_error(path.string() + ": is a folder; expected the name of a file behind --csv");
  if (fs::exists(path, failed) && !overwrite)
    throw input_error(path.string() + ": exists; replace it with --overwrite, or name another file with --csv");
  failed.clear();
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), failed);
  if (failed)
    throw input_error(path.string() + ": cannot be written: " + failed.message() + "; name another file with --csv");
}

}  // namespace troupe::telemetry
