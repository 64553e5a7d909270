#include "troupe/runtime/telemetry/pattern_files.hpp"

#include "troupe/files/error.hpp"
#include "troupe/files/input.hpp"
#include "troupe/files/text.hpp"
#include "troupe/runtime/support/units.hpp"
#include "troupe/runtime/topology/suggest.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
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

/// Returns the extensions that the file may have if it is in the results folder.
std::vector<std::string> endings_of(pattern_option option) {
  return option == pattern_option::csv ? std::vector<std::string>{".csv"} : std::vector<std::string>{".txt", ".log"};
}

[[noreturn]] void refuse(pattern_option option, const std::string& pattern, const std::string& reason) {
  throw input_error(name_of(option) + " " + topology::to_toml(pattern) + ": " + reason);
}

std::string names_of(const std::vector<placeholder>& known) {
  std::vector<std::string> names;
  for (const auto& [name, value] : known) names.push_back("{" + name + "}");
  return text::listed(names);
}

const std::string& value_of(pattern_option option, const std::string& name, const std::string& pattern,
                            const std::vector<placeholder>& known) {
  std::vector<std::string> names;
  for (const auto& candidate : known) {
    if (candidate.first == name) return candidate.second;
    names.push_back(candidate.first);
  }
  refuse(option, pattern,
         "unknown placeholder {" + name + "}; expected " + names_of(known) + topology::did_you_mean(name, names));
}

/// Stands for a missing value.
constexpr double none = std::numeric_limits<double>::quiet_NaN();

/// Formats a number with a fixed number of decimals, correctly rounded in every locale; "nan" if it is not finite.
std::string fixed(double value, int digits) {
  if (!std::isfinite(value)) return "nan";
  std::array<char, 400> text{};
  const auto [end, problem] =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed, digits);
  return problem == std::errc{} ? std::string(text.data(), end) : "nan";
}

}  // namespace

std::string name_of(pattern_option option) {
  return option == pattern_option::csv ? "--csv" : "--epoch-log";
}

fs::path path_of(pattern_option option, const std::string& pattern, const plan& plan) {
  const auto known = placeholders(plan);
  std::string path;
  for (std::size_t at = 0; at < pattern.size();) {
    const auto brace = std::min(pattern.find_first_of("{}", at), pattern.size());
    path += pattern.substr(at, brace - at);
    if (brace == pattern.size()) break;
    const auto end = pattern.find_first_of("{}", brace + 1);
    if (pattern[brace] == '}' || end == std::string::npos || pattern[end] == '{')
      refuse(option, pattern, "unmatched brace; expected placeholders such as " + names_of(known));
    path += value_of(option, pattern.substr(brace + 1, end - brace - 1), pattern, known);
    at = end + 1;
  }
  return path;
}

void make_way_for(pattern_option option, const fs::path& path, bool overwrite, const fs::path& folder,
                  const fs::path& topology) {
  const auto another = "choose another file with " + name_of(option);
  const auto refuse = [&](const std::string& reason) { throw input_error(path.string() + ": " + reason); };
  std::error_code failed;
  if (fs::equivalent(path, topology, failed)) refuse("this is the topology file itself; " + another);
  const auto endings = endings_of(option);
  if (fs::weakly_canonical(fs::absolute(path).parent_path(), failed) ==
          fs::weakly_canonical(fs::absolute(folder), failed) &&
      std::find(endings.begin(), endings.end(), path.extension()) == endings.end())
    refuse("the file is in the results folder; expected a name that ends in " + text::listed(endings) + " there");
  if (path.filename() == "epochs.csv") refuse("every run writes a file with this name; " + another);
  if (!path.has_filename() || fs::is_directory(path, failed)) refuse("this is a folder; " + another);
  if (const auto problem = files::irregularity(path)) refuse(*problem + "; " + another);
  if (fs::exists(path, failed) && !overwrite)
    refuse("the file already exists; replace it with --overwrite, or " + another);
  failed.clear();
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), failed);
  if (failed) refuse("cannot write the file: " + failed.message() + "; " + another);
}

std::string_view beginning_of(pattern_option option) {
  return option == pattern_option::csv ? "time,val_accuracy\n0.0,0.0\n" : "";
}

std::string addition_of(pattern_option option, const record& line) {
  if (option == pattern_option::csv) {
    if (line.event != "evaluation") return {};
    constexpr int digits_of_time = 1, digits_of_accuracy = 4;
    const auto has_accuracy = line.val_accuracy && std::isfinite(*line.val_accuracy);
    return as_python_rounds(line.train_seconds, digits_of_time) + ',' +
           (has_accuracy ? as_python_rounds(*line.val_accuracy, digits_of_accuracy) : "") + '\n';
  }
  if (line.event != "epoch") return {};
  return std::to_string(line.epoch) + "  " + fixed(line.train_seconds, 2) + "  " +
         fixed(line.epoch_train_loss.value_or(none), 4) + "  " + fixed(100 * line.val_accuracy.value_or(none), 2) +
         '\n';
}

std::string as_python_rounds(double value, int digits) {
  auto text = fixed(value, digits);
  if (const auto point = text.find('.'); point != std::string::npos)
    text.erase(std::max(text.find_last_not_of('0'), point + 1) + 1);
  return text;
}

}  // namespace troupe::telemetry
