#include "troupe/runtime/topology/constraints.hpp"

#include "troupe/files/text.hpp"
#include "troupe/runtime/support/units.hpp"
#include "troupe/runtime/topology/paths.hpp"
#include "troupe/runtime/topology/schema.hpp"
#include "troupe/runtime/topology/suggest.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace troupe::topology {
namespace {

/// Returns the value of a key, or nothing if it is unset. An unset name that must be set is "".
std::optional<setting_value> value_of(const section& section, const key& key, const topology& file, std::size_t index) {
  auto value = key.get(file, index);
  const bool required = !key.row.default_text.empty() || key.row.name == section.needed;
  if (!value && required && key.row.type == setting_type::choice) value = std::string();
  if (!value && key.row.type == setting_type::devices) value = std::vector<std::string>();
  return value;
}

/// Returns whether `row` accepts the value. A single device may stand for a list of one.
bool accepts(const setting& row, const setting_value& value) {
  const auto* word = std::get_if<std::string>(&value);
  if (row.type == setting_type::devices && word != nullptr) return allowed(row, std::vector<std::string>{*word});
  return allowed(row, value);
}

void check_value(const topology& file, const std::string& path, const setting& row, const setting_value& value,
                 const refusal& refuse) {
  if (accepts(row, value)) return;
  const auto* word = std::get_if<std::string>(&value);
  refuse(path, readable_path(file, path) + " is " + to_toml(value) + "; expected " + expectation(row) +
                   (word != nullptr && !row.choices.empty() ? did_you_mean(*word, row.choices) : ""));
}

/// Checks the settings of the kinds that a table names. `start` is the path of the table.
void check_options(const section& section, const topology& file, std::size_t index, const std::string& start,
                   const refusal& refuse) {
  if (!section.options) return;
  const auto& options = section.options(file, index);
  for (const setting* row : settings_of_kinds(section, file, index))
    if (const auto option = options.find(row->name); option != options.end())
      check_value(file, start + "." + row->name, *row, option->second, refuse);
}

}  // namespace

void check_values(const topology& file, const refusal& refuse) {
  for (const section& section : sections()) {
    const std::size_t tables = section.repeated() ? section.count(file) : 1;
    for (std::size_t i = 0; i < tables; ++i) {
      const std::string start = section.repeated() ? table_path(section.name, i) : section.name;
      for (const key& key : section.keys)
        if (const auto value = value_of(section, key, file, i))
          check_value(file, start + "." + key.row.name, key.row, *value, refuse);
      check_options(section, file, i, start, refuse);
    }
  }
}

bool check_node_workers(const topology& file, const refusal& refuse) {
  std::int64_t sum = 0;
  for (const node_settings& node : file.nodes) sum += node.workers;
  if (file.nodes.empty() || sum == file.workers.count) return true;
  refuse("workers.count", "workers.count is " + std::to_string(file.workers.count) + ", but the nodes have " +
                              std::to_string(sum) + (sum == 1 ? " worker" : " workers") + " in total; use " +
                              std::to_string(sum) + ", or remove workers.count, which defaults to their sum");
  return false;
}

std::int64_t worker_batch_size(const topology& file) {
  const auto& global = file.data.global_batch_size;
  return global ? *global / file.workers.count : file.data.batch_size;
}

bool check_batch_sizes(const topology& file, const refusal& refuse) {
  const auto& sizes = file.data.batch_sizes;
  if (sizes.empty() || file.data.global_batch_size) return true;
  const auto refuse_list = [&](const std::string& what) {
    refuse("data.batch_size", "data.batch_size is a list, which " + what);
    return false;
  };
  const auto requires_other = [&](const std::string& key) {
    return refuse_list("requires " + key + "; set it, or use one number for all workers");
  };
  if (sizes.size() != static_cast<std::size_t>(file.workers.count))
    return refuse_list("has " + counted(sizes.size(), "number") + ", but there are " +
                       std::to_string(file.workers.count) + " workers; expected one number for each worker");
  if (file.data.split != "strided") return requires_other("data.split = \"strided\"");
  if (!file.data.drop_last) return requires_other("data.drop_last = true");
  if (file.data.remainder != "drop") return requires_other("data.remainder = \"drop\"");
  if (file.run.budget != "worker") return requires_other("run.budget = \"worker\"");
  if (file.data.micro_batch_size)
    return refuse_list("cannot be combined with data.micro_batch_size; remove one of them");
  return true;
}

bool check_global_batch(const topology& file, const refusal& refuse) {
  const std::int64_t workers = file.workers.count, global = file.data.global_batch_size.value_or(workers);
  if (global % workers == 0) return true;
  std::vector<std::string> nearby;
  if (global > workers) nearby.push_back(std::to_string(global - global % workers));
  nearby.push_back(std::to_string(global - global % workers + workers));
  refuse("data.global_batch_size", "data.global_batch_size is " + std::to_string(global) + ", which " +
                                       std::to_string(workers) +
                                       " workers cannot share equally; expected a multiple of " +
                                       std::to_string(workers) + ", such as " + text::listed(nearby));
  return false;
}

void check_micro_batch(const topology& file, const refusal& refuse) {
  const std::int64_t batch = worker_batch_size(file), micro = file.data.micro_batch_size.value_or(batch);
  if (batch % micro == 0) return;
  std::int64_t fits = std::min(micro, batch);
  while (batch % fits != 0) --fits;
  refuse("data.micro_batch_size", "data.micro_batch_size is " + std::to_string(micro) +
                                      ", which does not divide a worker's batch of " + std::to_string(batch) +
                                      "; expected for instance " + std::to_string(fits));
}

void check_normalisation(const topology& file, std::int64_t channels, const refusal& refuse) {
  const auto& mean = file.data.mean;
  const auto& deviation = file.data.std;
  if (mean.empty() && deviation.empty()) return;
  const std::string path = mean.empty() ? "data.std" : "data.mean";
  if (!file.data.normalize)
    return refuse(path, path + " has no effect with data.normalize = false; remove one of the two keys");
  if (mean.empty() || deviation.empty())
    return refuse(path, path + " is set without " + (mean.empty() ? "data.mean" : "data.std") + "; expected both");
  for (const auto& [key, values] : {std::pair{"data.mean", &mean}, std::pair{"data.std", &deviation}}) {
    if (channels == 0 || values->size() == static_cast<std::size_t>(channels)) continue;
    refuse(key, std::string(key) + " has " + std::to_string(values->size()) + " numbers; expected " +
                    std::to_string(channels) + ", one for each channel of " + file.data.name);
  }
}

}  // namespace troupe::topology
