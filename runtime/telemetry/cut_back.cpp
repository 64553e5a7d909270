#include "troupe/runtime/telemetry/cut_back.hpp"

#include "troupe/files/error.hpp"
#include "troupe/files/input.hpp"
#include "troupe/files/json.hpp"
#include "troupe/runtime/checkpoint/copy.hpp"
#include "troupe/runtime/checkpoint/write_checkpoint.hpp"
#include "troupe/runtime/support/sha256.hpp"
#include "troupe/runtime/support/write_aside.hpp"
#include "troupe/runtime/telemetry/metrics.hpp"
#include "troupe/runtime/telemetry/output_names.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace troupe::telemetry {

namespace fs = std::filesystem;

namespace {

constexpr std::array text_outputs{metrics_name, epochs_name};
constexpr auto* result = "model.safetensors";

std::optional<std::uint64_t> size_of(const fs::path& path) {
  std::error_code failed;
  if (fs::symlink_status(path, failed).type() != fs::file_type::regular) return {};
  const auto bytes = fs::file_size(path, failed);
  return failed ? std::nullopt : std::optional{bytes};
}

std::string bytes_text(std::uint64_t bytes) {
  return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
}

/// Returns whether the bytes of a file after the first `begin` can be lines that an option has added. This prevents a
/// checkpoint from elsewhere from naming a file of another program, which would then be cut.
bool has_only_numbers(const fs::path& path, std::uint64_t begin) {
  files::input in{path};
  in.seek(begin);
  std::array<char, 1 << 14> block;
  while (const auto count = in.read(block.data(), block.size()))
    if (std::string_view{block.data(), count}.find_first_not_of("0123456789.,-na \n") != std::string_view::npos)
      return false;
  return true;
}

void check_option_file(const std::string& option, const fs::path& path, const checkpoint::saved_option& saved) {
  const auto refuse = [&](const std::string& reason) {
    throw input_error(path.string() + ": " + reason + "; --" + option +
                      " of a continued run needs the file that the run has written so far; move this one away to "
                      "have it written again");
  };
  std::error_code failed;
  if (!fs::exists(fs::symlink_status(path, failed))) return;  // a missing file is written again
  const auto bytes = size_of(path);
  if (!bytes) refuse("it is not a regular file");
  if (*bytes < saved.bytes)
    refuse("the file has " + bytes_text(*bytes) + ", but had " + std::to_string(saved.bytes) +
           " when the checkpoint was written");
  if (sha256_of_file(path, saved.bytes) != saved.sha256 || !has_only_numbers(path, saved.bytes))
    refuse("the file has other contents than when the checkpoint was written");
}

void cut(const fs::path& path, std::uint64_t bytes) {
  std::error_code failed;
  fs::resize_file(path, bytes, failed);
  if (failed) throw std::runtime_error("cannot cut " + path.string() + " back: " + failed.message());
}

using warning_sink = std::function<void(const std::string&)>;

/// Renames the file at this path to a new name, which replaces no other file.
void put_aside(const fs::path& path, const warning_sink& warn) {
  std::error_code failed;
  if (!fs::exists(fs::symlink_status(path, failed))) return;
  fs::path other;
  for (int i = 1; i == 1 || fs::exists(fs::symlink_status(other, failed)); ++i)
    other = path.string() + ".other" + (i == 1 ? "" : "-" + std::to_string(i));
  fs::rename(path, other);
  warn("warning: " + path.string() + " is not the file that this run has written; it is kept as " + other.string());
}

/// Cuts an output back to its length when a checkpoint was written. If the file is missing or is not that of the run,
/// frees the path and returns false.
bool take_back(const fs::path& path, const std::map<std::string, checkpoint::sealed_file>& outputs,
               const warning_sink& warn) {
  const auto saved = outputs.find(path.filename().string());
  const auto bytes = size_of(path);
  if (saved != outputs.end() && bytes && *bytes >= saved->second.bytes) {
    const auto& [length, sha256] = saved->second;
    if (sha256.empty() || sha256_of_file(path, length) == sha256) return cut(path, length), true;
  }
  put_aside(path, warn);
  return false;
}

}  // namespace

std::map<std::string, checkpoint::sealed_file> sealed_outputs(const fs::path& folder) {
  std::map<std::string, checkpoint::sealed_file> sealed;
  for (const auto* name : text_outputs) {
    const auto file = option_file(folder / name);
    sealed[name] = {file.bytes, file.sha256};
  }
  return sealed;
}

checkpoint::saved_option option_file(const fs::path& path) {
  const auto bytes = fs::file_size(path);
  const auto digest = sha256_of_file(path, bytes);
  if (!digest) throw std::runtime_error("cannot read " + path.string());
  return {.path = fs::absolute(path).lexically_normal().string(), .bytes = bytes, .sha256 = *digest};
}

std::map<pattern_option, fs::path> continued_files(const fs::path& folder, const checkpoint::manifest& about,
                                                   const std::map<pattern_option, fs::path>& given) {
  std::map<pattern_option, fs::path> files;
  for (const auto option : {pattern_option::csv, pattern_option::epoch_log}) {
    const auto name = name_of(option).substr(2);
    const auto saved = about.options.find(name);
    const auto named = given.find(option);
    if (saved == about.options.end()) {
      if (named != given.end())
        throw input_error(named->second.string() + ": the run to continue was started without --" + name +
                          "; remove the option");
      continue;
    }
    const auto of_copy = checkpoint::option_file_in_copy(folder, name, saved->second);
    const auto known = size_of(of_copy) ? of_copy : fs::path(saved->second.path);
    const auto path = named == given.end() ? known : named->second;
    check_option_file(name, path, saved->second);
    files.emplace(option, path);
  }
  return files;
}

void cut_back(const fs::path& folder, const fs::path& checkpoint, const checkpoint::manifest& about,
              const std::map<pattern_option, fs::path>& files, const std::function<void(const std::string&)>& warn) {
  const auto metrics = folder / metrics_name, epochs = folder / epochs_name;
  const bool is_there = size_of(metrics).has_value();
  const auto has_metrics = take_back(metrics, about.outputs, warn);
  if (!has_metrics) {
    put_aside(folder / result, warn);  // these weights are of another run, too
    if (is_there) put_aside(folder / checkpoint::best_weights, warn);
    write_aside(metrics, "");
    warn("warning: the metrics of the steps before " + std::to_string(about.step) + " are missing in " +
         metrics.string());
  }
  if (!take_back(epochs, about.outputs, warn)) {
    auto text = csv_header() + '\n';
    for (const auto& line : records_of(files::read_all(metrics)))
      if (line.event == "epoch") text += csv_line(line) + '\n';
    write_aside(epochs, text);
  }
  for (const auto& [option, path] : files) {
    if (size_of(path)) {
      cut(path, about.options.at(name_of(option).substr(2)).bytes);
      continue;
    }
    warn("warning: " + path.string() + " is missing, and is written again");
    std::string text{beginning_of(option)};
    for (const auto& line : records_of(files::read_all(metrics))) text += addition_of(option, line);
    if (path.has_parent_path()) fs::create_directories(path.parent_path());
    write_aside(path, text);
  }
  durable_files disk;
  disk.remove(folder / result);
  // Not renamed into place: renaming a file to another name of the same file does nothing.
  disk.remove(folder / checkpoint::best_weights);
  if (about.files.contains(checkpoint::best_weights))
    disk.link(checkpoint / checkpoint::best_weights, folder / checkpoint::best_weights);
}

std::optional<recorded_end> end_of(const fs::path& folder) {
  constexpr std::uint64_t longest_line = 1u << 20u;
  const auto path = folder / metrics_name;
  const auto bytes = size_of(path);
  if (!bytes || !size_of(folder / result)) return {};
  const auto length = std::min(*bytes, longest_line);
  std::string text(length, '\0');
  if (files::input{path}.read_at(*bytes - length, text.data(), length) != length || !text.ends_with('\n')) return {};
  text.pop_back();
  const auto line = files::parse_json(text.substr(text.rfind('\n') + 1));
  if (!line.is_object() || !line.contains("event") || line["event"] != "end") return {};
  if (!line.contains("status") || !line["status"].is_string()) return {};
  if (!line.contains("step") || !line["step"].is_number_unsigned()) return {};
  return recorded_end{line["status"].get<std::string>(), line["step"].get<std::uint64_t>()};
}

}  // namespace troupe::telemetry
