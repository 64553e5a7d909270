#include "troupe/runtime/telemetry/file_journal.hpp"

#include "troupe/runtime/checkpoint/copy.hpp"
#include "troupe/runtime/checkpoint/folder.hpp"
#include "troupe/runtime/checkpoint/model_file.hpp"
#include "troupe/runtime/checkpoint/write_checkpoint.hpp"
#include "troupe/runtime/support/read_text.hpp"
#include "troupe/runtime/support/write_aside.hpp"
#include "troupe/runtime/telemetry/cut_back.hpp"
#include "troupe/runtime/telemetry/output_names.hpp"
#include "troupe/runtime/topology/load.hpp"
#include "troupe/runtime/topology/schema.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <ATen/ops/isfinite.h>

#include <algorithm>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>

namespace troupe::telemetry {

namespace {

using namespace std::chrono_literals;

/// How long a finished run retries to write its weights, and then all other outputs. Schedulers kill a run about a
/// minute after they have asked it to end.
constexpr std::chrono::milliseconds patience_with_weights = 30s, patience_with_others = 10s;

/// How long conclude() waits for another thread that writes.
constexpr std::chrono::milliseconds time_to_write = 1s;

constexpr auto *topology_name = "topology.toml", *drawing_name = "graph.svg";

}  // namespace

file_journal::file_journal(const plan& plan, run_folder folder, std::unique_ptr<display> shown,
                           const file_journal_options& options)
    : plan_(plan),
      folder_(std::move(folder)),
      shown_(std::move(shown)),
      outputs_(options.outputs),
      metrics_({.path = folder_ / metrics_name, .continues = options.continues}),
      epochs_(options.continues ? read_text(folder_ / epochs_name) : csv_header() + '\n'),
      from_(options.from),
      changed_(options.changed),
      about_(options.about),
      drawing_(options.drawing),
      feed_(options.feed),
      disk_(options.disk),
      now_(options.now) {
  metrics_.flush();
  folder_.write(topology_name, topology::print(plan_.file));
  folder_.write(epochs_name, epochs_);
  for (const auto& [option, path] : options.beside) {
    beside_.push_back({option, path, options.continues ? read_text(path) : std::string(beginning_of(option))});
    write_aside(path, beside_.back().text);
  }
  if (feed_ && options.continues) feed_->add(read_text(folder_ / metrics_name));
  outputs_->before_warning([this] { shown_->make_room(); });
  outputs_->before_writing([this] { restore_folder(); });
}

file_journal::~file_journal() {
  conclude();
}

void file_journal::conclude() {
  // A job of the recorder's lane may still be writing, or hang on a disk.
  std::unique_lock lock{mutex_, std::try_to_lock};
  for (auto waited = 0ms; !lock && waited < time_to_write; waited += 10ms) {
    std::this_thread::sleep_for(10ms);
    if (lock.try_lock()) break;
  }
  if (!lock) return;
  if (!latest_ || latest_->event == "end") return;
  record end = *latest_;
  end.event = "end";
  end.status = "failed";
  end.step = std::max(end.step, progress_);
  end.updates = std::max(end.updates, end.step);
  const std::chrono::duration<double> elapsed = now_() - begun_;
  end.seconds = std::max(end.seconds, seconds_before_ + elapsed.count());
  end.samples_per_second = end.data_wait = end.epoch_seconds = end.epoch_train_loss = {};
  end.train_loss_workers.clear();
  end.staleness_counts.clear();
  end.steered.reset();
  end.workers.clear();
  write(end);
}

/// Creates the folder again if it was removed, and writes the known files to it.
void file_journal::restore_folder() {
  if (folder_.restore()) restored_ = true;
  if (!restored_) return;
  folder_.write(topology_name, topology::print(plan_.file));
  folder_.write(epochs_name, epochs_);
  if (drawn_) draw();
  restored_ = false;
}

void file_journal::draw() const {
  folder_.write(drawing_name, drawing_(plan_));
}

/// Writes a whole file of the folder, now or later.
void file_journal::write_now(const std::string& name, const std::string& content) {
  outputs_->write(name, [this, name, content] { folder_.write(name, content); });
}

void file_journal::write(const record& line) {
  const std::lock_guard lock{mutex_};
  if (latest_ && latest_->event == "end") return;  // conclude() was faster
  if (!latest_) {
    begun_ = now_();
    seconds_before_ = line.seconds;
  }
  const auto text = json_line(line, from_, changed_) + '\n';
  const auto ends = line.event == "end";
  if (ends)
    metrics_.add_last(text);
  else
    metrics_.add(text);
  outputs_->write(metrics_name, [this] { metrics_.flush(); });
  if (line.event == "epoch") {
    epochs_ += csv_line(line) + '\n';
    write_now(epochs_name, epochs_);
  }
  if (ends && !line.workers.empty()) write_now("workers.csv", csv_of_workers(line.workers));
  for (auto& file : beside_) {
    const auto added = addition_of(file.option, line);
    if (added.empty()) continue;
    file.text += added;
    outputs_->write(file.path.string(), [path = file.path, text = file.text] { write_aside(path, text); });
  }
  shown_->write(line);
  if (feed_) feed_->add(text);
  if (feed_ && ends) {
    feed_->set_progress(line.step);
    feed_->close();
  }
  latest_ = line;
  // Last, and not in the constructor: fonts and plugins take a moment, and neither the first step nor the user should
  // wait for them.
  if (!drawn_ && drawing_) outputs_->write(drawing_name, [this] { draw(); });
  drawn_ = true;
  if (!ends) return;
  outputs_->finish(line.status == "failed" ? 0ms : patience_with_others);
  if (metrics_.dropped() > 0)
    outputs_->warn(metrics_.path().string() + " lacks " + std::to_string(metrics_.dropped()) +
                   " lines, which no memory was left to keep while they could not be written");
}

void file_journal::write_links(const std::vector<emulation::wire_usage>& links) const {
  if (plan_.links.empty() || !latest_) return;
  folder_.write("links.csv", csv_of_links(links, latest_->seconds - seconds_before_));
}

void file_journal::progress(std::uint64_t step) {
  const std::lock_guard lock{mutex_};
  progress_ = step;
  shown_->progress(step);
  if (feed_) feed_->set_progress(step);
  outputs_->retry();
}

void file_journal::progress_by_worker(const std::vector<std::uint64_t>& steps) {
  const std::lock_guard lock{mutex_};
  shown_->progress_by_worker(steps);
  if (feed_) feed_->set_steps_of_workers(steps);
}

namespace {

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Returns the settings of a section that are listed in `read`, except paths, which are specific to this machine.
std::vector<std::string> settings_of(const topology::topology& file, const std::string& section,
                                     const std::vector<std::string>& read) {
  const std::vector<std::string> elsewhere{"exported", "script", "file", "test_file", "mapped"};
  std::vector<std::string> settings;
  for (const auto& line : topology::lines_of(*topology::find_section(section), file, 0))
    if (contains(read, line.name) && !contains(elsewhere, line.name) && !is_path(line.type))
      settings.push_back(section + "." + line.name + "=" + line.value);
  return settings;
}

/// Returns the settings that define the model and, for a data set without files, the samples.
std::vector<std::string> made_by(const plan& plan) {
  const auto keys = [](std::vector<std::string> reads, const std::vector<setting>& rows) {
    for (const auto& row : rows) reads.push_back(row.name);
    return reads;
  };
  const auto of_model = keys(plan.model->reads, plan.model->settings);
  auto settings = settings_of(plan.file, "model", keys(of_model, plan.loss.kind().settings));
  const auto& held_out = plan.file.data.validation;
  if (held_out) settings.push_back("data.validation=" + topology::to_toml(*held_out));
  if (held_out || plan.data->draws) settings.push_back("run.seed=" + std::to_string(plan.file.run.seed));
  const auto of_data = settings_of(plan.file, "data", keys(plan.data->reads, plan.data->settings));
  settings.insert(settings.end(), of_data.begin(), of_data.end());
  return settings;
}

}  // namespace

void file_journal::keep(const snapshot& best) {
  const std::lock_guard lock{mutex_};
  outputs_->write(checkpoint::best_weights, [this, best] { write_weights(folder_ / checkpoint::best_weights, best); });
}

namespace {

/// Returns a path in the folder for temporary files, which is usually on another disk than the results.
std::filesystem::path elsewhere(const std::filesystem::path& folder) {
  const auto name = std::filesystem::absolute(folder).lexically_normal().filename().string();
  return std::filesystem::temp_directory_path() /
         ("troupe-" + name + "-" + std::to_string(::getpid()) + "-model.safetensors");
}

}  // namespace

void file_journal::save(const snapshot& result) {
  const std::lock_guard lock{mutex_};
  // The losses of training do not show what the last step does to the weights.
  const auto parameters = result.values.narrow(0, 0, plan_.layout.parameter_end);
  if (plan_.file.run.stop_on_non_finite && !at::isfinite(parameters).all().item<bool>())
    throw std::runtime_error(
        "the final weights contain values that are not finite (nan or inf): training diverged; reduce optimizer.lr, or "
        "set run.stop_on_non_finite = false to keep them");
  const auto path = folder_ / "model.safetensors";
  std::string reason;
  outputs_->persist(patience_with_weights, 1s, [&] {
    const auto is_first = reason.empty();
    try {
      restore_folder();
      write_weights(path, result);
      reason.clear();
      return true;
    } catch (const write_error& failed) {
      reason = failed.what();
      if (failed.reason == std::errc::file_too_large) return true;  // a limit of this process, which does not change
    } catch (const std::runtime_error& failed) {
      reason = failed.what();
    }
    if (is_first)
      outputs_->warn(reason + "; these are the final weights: the run tries again for " +
                     topology::print_duration(patience_with_weights));
    return false;
  });
  if (reason.empty()) return;
  try {
    const auto other = elsewhere(folder_.path());
    write_weights(other, result);
    reason += "; the final weights are in " + other.string();
  } catch (const std::exception&) {
    reason += "; the final weights are lost";
  }
  if (!checkpoint::checkpoints_in(folder_.path()).empty())
    reason += "; to continue from the newest checkpoint, use --resume " + folder_.path().string();
  throw std::runtime_error(reason);
}

checkpoint::manifest file_journal::manifest_now() {
  auto about = *about_;
  restore_folder();
  outputs_->retry_now();
  metrics_.flush();
  // Otherwise, a continued run would take older best weights for those that its state describes.
  if (outputs_->waits(checkpoint::best_weights))
    throw std::runtime_error(std::string(checkpoint::best_weights) + " is not written yet");
  const auto make = [](const std::filesystem::path& path, const std::string& text) {
    if (!std::filesystem::exists(path)) write_aside(path, text);
  };
  make(folder_ / epochs_name, epochs_);
  for (const auto* name : {metrics_name, epochs_name}) disk_->sync(folder_ / name);
  about.outputs = sealed_outputs(folder_.path());
  for (const auto& file : beside_) {
    make(file.path, file.text);
    disk_->sync(file.path);
    about.options[name_of(file.option).substr(2)] = option_file(file.path);
  }
  return about;
}

std::optional<state_dict> file_journal::checkpoint(const run_state& state, bool copied) {
  const std::lock_guard lock{mutex_};
  wrote_checkpoint_ = !about_;  // then, none was to be written
  if (!about_) return {};
  std::string output = "checkpoint";
  try {
    const auto about = manifest_now();
    checkpoint::write_checkpoint(folder_.path(), state, about, static_cast<std::size_t>(plan_.file.checkpoint.keep),
                                 *disk_);
    wrote_checkpoint_ = true;
    output = "copy of the checkpoint";
    std::optional<state_dict> files;
    if (copied && plan_.keeps_copies(1)) files = checkpoint::pack_copy(folder_.path(), state.step, about);
    if (std::exchange(checkpoint_failed_, false))
      outputs_->say("checkpoints are written again: that of step " + std::to_string(state.step) + " is complete");
    return files;
  } catch (const std::exception& reason) {
    if (!std::exchange(checkpoint_failed_, true))
      outputs_->warn("the " + output + " of step " + std::to_string(state.step) + " is not complete: " + reason.what() +
                     "; the run continues, and earlier ones remain");
  }
  return {};
}

void file_journal::report_overdue_copy(std::uint64_t step) {
  outputs_->warn("node " + plan_.nodes.at(1).name + " has not confirmed its copy of the checkpoint of step " +
                 std::to_string(step) + " within " + topology::print_duration(plan_.file.run.timeout) +
                 " (run.timeout); no further copies are sent until it does");
}

void file_journal::write_weights(const std::filesystem::path& path, const snapshot& weights) const {
  checkpoint::write_model(path,
                          {.model = plan_.model->name,
                           .data = plan_.data->name,
                           .scale = plan_.scale,
                           .loss = plan_.loss.name(),
                           .shape = plan_.data->sample_shape.empty() ? plan_.shape.input : std::vector<std::int64_t>{},
                           .class_names = plan_.facts.class_names,
                           .made_by = made_by(plan_),
                           .tied = plan_.tied,
                           .constants = plan_.constants},
                          plan_.layout, weights.values);
}

}  // namespace troupe::telemetry
