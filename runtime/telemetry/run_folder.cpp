#include "troupe/runtime/telemetry/run_folder.hpp"

#include "troupe/runtime/checkpoint/folder.hpp"
#include "troupe/runtime/recording/beginning.hpp"
#include "troupe/runtime/support/write_aside.hpp"
#include "troupe/runtime/telemetry/tensorboard.hpp"
#include "troupe/runtime/topology/error.hpp"

#include <sys/file.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <stdexcept>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace troupe::telemetry {

namespace fs = std::filesystem;

namespace {

constexpr std::array outputs{
    "topology.toml",     "metrics.jsonl",  "epochs.csv",  "graph.svg", "model_best.safetensors",
    "model.safetensors", "deliveries.bin", "workers.csv", "links.csv", "trace.json",
    "report.html"};
/// Written before the `end` record, and renamed into place: who has it has finished training.
constexpr auto* result = "model.safetensors";

[[noreturn]] void refuse(const fs::path& path, const std::string& reason) {
  throw input_error(path.string() + ": cannot write the results of the run to this folder: " + reason +
                    "; choose another folder with --out");
}

/// Locks the folder for this process; throws where another has it.
std::shared_ptr<void> lock(const fs::path& folder) {
  const int file = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) refuse(folder, std::strerror(errno));
  std::shared_ptr<void> held(nullptr, [file](void*) { close(file); });
  if (flock(file, LOCK_EX | LOCK_NB) != 0) refuse(folder, "another run is writing into it");
  return held;
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
  std::error_code failed;
  if (fs::equivalent(path / "topology.toml", options.topology, failed))
    refuse(path, "its topology.toml is the topology file of this run and would be overwritten");
  if (options.overwrite) return;
  if (fs::exists(path / result, failed))
    throw input_error(
        path.string() +
        ": the folder contains a finished run; replace it with --overwrite, or choose another folder with --out");
  if (!checkpoint::checkpoints_in(path).empty())
    throw input_error(path.string() +
                      ": the folder contains a run with checkpoints; continue it with --resume, replace it with "
                      "--overwrite, or choose another folder with --out");
}

run_folder::run_folder(const run_folder_options& options, std::chrono::system_clock::time_point now)
    : path_(options.out.empty() ? default_folder(options.topology, now) : options.out) {
  std::error_code failed;
  if (fs::exists(path_, failed) && !fs::is_directory(path_, failed)) refuse(path_, "it is a file");
  if (options.resume && !fs::is_directory(path_, failed))
    throw input_error(path_.string() +
                      ": the folder does not exist; expected the results folder of the run to continue");
  if (!options.resume) check_replaceable({.out = path_, .topology = options.topology, .overwrite = options.overwrite});
  failed.clear();
  fs::create_directories(path_, failed);
  if (failed) refuse(path_, failed.message());
  lock_ = lock(path_);
  const auto probe = path_ / ".writable";
  try {
    write_aside(probe, "");
    fs::remove(probe);
    if (!options.resume && !options.clear_later) clear();
  } catch (const std::exception& reason) {
    refuse(path_, reason.what());
  }
}

void run_folder::clear() const {
  const auto has_run = fs::exists(path_ / "metrics.jsonl");  // else the event files are those of another program
  for (const auto* name : outputs) fs::remove(path_ / name);
  std::vector<fs::path> event_files;
  for (const auto& each : fs::directory_iterator(path_))
    if (has_run && is_event_file(each.path())) event_files.push_back(each.path());
  for (const auto& each : event_files) fs::remove(each);
  for (const auto& each : checkpoint::checkpoints_in(path_)) fs::remove_all(each.path);
  for (const auto& each : checkpoint::unfinished_in(path_)) fs::remove_all(each);
  fs::remove_all(path_ / recording::beginning_folder);
  const auto folder = checkpoint::folder_of(path_);
  if (fs::is_directory(folder) && fs::is_empty(folder)) fs::remove(folder);
}

void run_folder::write(std::string_view name, std::string_view content) const {
  write_aside(path_ / name, content);
}

}  // namespace troupe::telemetry
