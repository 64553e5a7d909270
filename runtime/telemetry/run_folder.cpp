#include "troupe/runtime/telemetry/run_folder.hpp"

#include "troupe/files/error.hpp"
#include "troupe/files/input.hpp"
#include "troupe/files/text.hpp"
#include "troupe/runtime/checkpoint/folder.hpp"
#include "troupe/runtime/recording/beginning.hpp"
#include "troupe/runtime/support/claimed_folder.hpp"
#include "troupe/runtime/support/read_text.hpp"
#include "troupe/runtime/support/write_aside.hpp"
#include "troupe/runtime/telemetry/tensorboard.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace troupe::telemetry {

namespace fs = std::filesystem;

namespace {

constexpr auto* marker_text =
    "This folder contains a run of Troupe, which may replace the files that a run writes. docs/outputs.md lists "
    "them.\n";

/// Files that every run writes, even one that fails. If they contain no results, nothing is lost when they are
/// replaced.
constexpr std::array plain_outputs{"topology.toml", "metrics.jsonl", "epochs.csv",
                                   "graph.svg",     "report.html",   "actors.json"};
/// A folder with one of these files has results that would have to be computed again.
constexpr std::array results{"model_best.safetensors", "trace.json", "deliveries.bin", "workers.csv", "links.csv"};
/// Written before the `end` record and renamed into place, so a folder that contains it belongs to a finished training.
constexpr auto* final_weights = "model.safetensors";

[[noreturn]] void refuse(const fs::path& path, const std::string& reason) {
  throw input_error(path.string() + ": cannot write the results of the run to this folder: " + reason +
                    "; choose another folder with --out");
}

bool is_there(const fs::path& path) {
  std::error_code failed;
  return fs::exists(fs::symlink_status(path, failed));
}

std::vector<std::string> names_of_outputs() {
  std::vector<std::string> names(plain_outputs.begin(), plain_outputs.end());
  names.insert(names.end(), results.begin(), results.end());
  names.emplace_back(final_weights);
  return names;
}

std::vector<fs::path> event_files_in(const fs::path& folder) {
  std::error_code failed;
  std::vector<fs::path> paths;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed))
    if (is_event_file(entry->path())) paths.push_back(entry->path());
  return paths;
}

/// Returns whether metrics.jsonl has more than the beginning and the end of a run.
bool has_epochs(const fs::path& metrics) {
  if (!is_there(metrics)) return false;
  std::istringstream in{files::read_all(metrics)};
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(R"({"event":"e)") && !line.starts_with(R"({"event":"end")")) return true;
  return false;
}

/// Returns the results in this folder that would have to be computed again, by names for a message.
std::vector<std::string> results_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto* name : results)
    if (is_there(folder / name)) names.emplace_back(name);
  if (!checkpoint::checkpoints_in(folder).empty()) names.emplace_back("checkpoints");
  if (!event_files_in(folder).empty()) names.emplace_back("an event file");
  if (names.empty() && has_epochs(folder / "metrics.jsonl")) names.emplace_back("metrics.jsonl");
  return names;
}

/// Returns whether outputs of a new run in `folder` would replace this file.
bool is_in_the_way(const fs::path& folder, const fs::path& input) {
  std::error_code failed;
  if (input.empty()) return false;
  for (const auto& name : names_of_outputs())
    if (fs::equivalent(folder / name, input, failed)) return true;
  const auto within = fs::weakly_canonical(input, failed).lexically_relative(fs::weakly_canonical(folder, failed));
  const auto first = within.empty() ? fs::path() : *within.begin();
  return first == checkpoint::folder_of("").filename() || first == recording::beginning_folder;
}

/// Throws std::runtime_error if remove_outputs() could not remove all outputs. In that case, it must not remove any.
void check_removable(const fs::path& folder) {
  for (const auto& name : names_of_outputs()) {
    std::error_code failed;
    const auto path = folder / name;
    if (fs::symlink_status(path, failed).type() == fs::file_type::directory && !fs::is_empty(path, failed))
      throw std::runtime_error(name + " is a folder with files, where a run writes a file; move it away");
  }
}

/// Removes the checkpoints of a run, and the folder around them if nothing else is in it.
void remove_checkpoints(const fs::path& out) {
  for (const auto& complete : checkpoint::checkpoints_in(out)) fs::remove_all(complete.path);
  for (const auto& unfinished : checkpoint::unfinished_in(out)) fs::remove_all(unfinished);
  const auto folder = checkpoint::folder_of(out);
  if (fs::is_directory(folder) && fs::is_empty(folder)) fs::remove(folder);
}

}  // namespace

fs::path default_folder(const fs::path& topology, std::chrono::system_clock::time_point now) {
  const auto seconds = std::chrono::system_clock::to_time_t(now);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  std::array<char, 32> time{};
  std::strftime(time.data(), time.size(), "%Y%m%dT%H%M%SZ", &utc);
  const auto wanted = fs::path("runs") / (topology.stem().string() + "-" + time.data());
  auto path = wanted;
  for (int i = 2; fs::exists(path); ++i) path = wanted.string() + "-" + std::to_string(i);
  return path;
}

void check_replaceable(const run_folder_options& options) {
  const auto& path = options.out;
  if (is_in_the_way(path, options.topology))
    refuse(path, "its " + options.topology.filename().string() +
                     " is the topology file of this run and would be overwritten");
  for (const auto& input : options.inputs)
    if (is_in_the_way(path, input)) refuse(path, "the run reads " + input.string() + ", which would be overwritten");
  if (options.overwrite) return;
  const auto whose = claim_of(path, run_marker);
  if (whose == claim::free) return;
  if (whose == claim::foreign) throw input_error(path.string() + ": " + foreign_text(path, run_marker, "run"));
  if (is_there(path / final_weights))
    throw input_error(
        path.string() +
        ": the folder contains a finished run; replace it with --overwrite, or choose another folder with --out");
  const auto existing = results_in(path);
  if (existing.empty()) return;
  const auto continues = std::find(existing.begin(), existing.end(), "checkpoints") != existing.end();
  throw input_error(path.string() + ": the folder contains a run without " + final_weights + ", but with " +
                    text::listed(existing, "and") + "; " +
                    (continues ? "continue it with --resume " + path.string() + ", replace it" : "replace it") +
                    " with --overwrite, or choose another folder with --out");
}

void claim_for_parts(const fs::path& folder, bool overwrite) {
  const auto whose = claim_of(folder, run_marker);
  if (whose == claim::ours) return;
  if (whose == claim::foreign) {
    if (overwrite) return;  // the first node marks it, after it has found its event files to be foreign
    throw input_error(folder.string() + ": " + foreign_text(folder, run_marker, "run"));
  }
  std::error_code failed;
  fs::create_directories(folder, failed);
  // Not written aside: the first node may do the same concurrently, and must find only files that it recognises.
  std::ofstream marker(folder / run_marker, std::ios::app);
  marker << marker_text << std::flush;
  if (!marker) refuse(folder, std::strerror(errno));
}

void remove_outputs(const fs::path& folder) {
  check_removable(folder);
  const auto is_ours = claim_of(folder, run_marker) == claim::ours;  // otherwise, event files are foreign
  for (const auto& name : names_of_outputs()) {
    fs::remove(folder / name);
    fs::remove(folder / (name + aside_suffix));
  }
  if (is_ours)
    for (const auto& path : event_files_in(folder)) fs::remove(path);
  remove_checkpoints(folder);
  const auto beginning = folder / recording::beginning_folder;
  remove_checkpoints(beginning);
  if (fs::is_directory(beginning) && fs::is_empty(beginning)) fs::remove(beginning);
  fs::remove(folder / run_marker);
}

void disclaim(const fs::path& folder, bool existed) {
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed))
    if (entry->path().filename() != run_marker) return;
  fs::remove(folder / run_marker, failed);
  if (!existed) fs::remove(folder, failed);
}

run_folder::run_folder(const run_folder_options& options, std::chrono::system_clock::time_point now)
    : path_(options.out.empty() ? default_folder(options.topology, now) : options.out),
      mark_(marker_text + ("It was opened by process " + std::to_string(::getpid())) + " at " +
            std::to_string(now.time_since_epoch().count()) + ".\n"),
      lock_(std::make_shared<held_folder>()) {
  std::error_code failed;
  const auto exists = fs::exists(path_, failed);
  if (exists && !fs::is_directory(path_, failed)) refuse(path_, "it is a file");
  if (!exists && is_there(path_)) refuse(path_, "it is a link, and the folder that it names does not exist");
  if (options.resume && !exists)
    throw input_error(path_.string() +
                      ": the folder does not exist; expected the results folder of the run to continue");
  auto checked = options;
  checked.out = path_;
  if (!exists && !options.resume) check_replaceable(checked);
  failed.clear();
  fs::create_directories(path_, failed);
  if (failed) refuse(path_, failed.message());
  try {
    if (!lock_->lock(path_)) refuse(path_, "another run is writing into it");
  } catch (const std::system_error& reason) {
    refuse(path_, reason.code().message());
  }
  if (!options.resume) check_replaceable(checked);  // again, with the lock held: another run may have used it meanwhile
  try {
    if (!options.resume && !options.clear_later) remove_outputs(path_);
    // A folder that is cleared later is marked then: foreign event files can be recognised only without the mark.
    if (!options.clear_later || claim_of(path_, run_marker) != claim::foreign) mark();
  } catch (const std::exception& reason) {
    refuse(path_, reason.what());
  }
}

void run_folder::mark() const {
  write_aside(path_ / run_marker, mark_);
}

bool run_folder::restore() const {
  if (lock_->is_at(path_)) return false;
  const auto give_up = [this](const std::string& reason) { throw std::runtime_error(path_.string() + ": " + reason); };
  std::error_code failed;
  fs::create_directories(path_, failed);
  if (failed) give_up("the folder is gone, and cannot be made again: " + failed.message());
  const auto whose = claim_of(path_, run_marker);
  if (whose == claim::foreign) give_up("the folder has been replaced by one with other files");
  const auto of_another = [&] {  // a file system that is mounted again has our own marker
    return whose == claim::ours && read_text(path_ / run_marker) != mark_ &&
           (is_there(path_ / final_weights) || !results_in(path_).empty());
  };
  try {
    if (of_another() || !lock_->lock(path_)) give_up("the folder has been replaced by that of another run");
  } catch (const std::system_error& reason) {
    give_up(reason.code().message());
  }
  mark();
  return true;
}

void run_folder::write(std::string_view name, std::string_view content) const {
  write_aside(path_ / name, content);
}

}  // namespace troupe::telemetry
