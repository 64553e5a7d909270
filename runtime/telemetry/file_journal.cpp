#include "troupe/runtime/telemetry/file_journal.hpp"

#include "troupe/runtime/checkpoint/copy.hpp"
#include "troupe/runtime/checkpoint/model_file.hpp"
#include "troupe/runtime/checkpoint/write_checkpoint.hpp"
#include "troupe/runtime/support/read_text.hpp"
#include "troupe/runtime/support/write_aside.hpp"
#include "troupe/runtime/telemetry/cut_back.hpp"
#include "troupe/runtime/topology/load.hpp"
#include "troupe/runtime/topology/schema.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace troupe::telemetry {

namespace {

void check(const std::ofstream& out, const std::filesystem::path& path) {
  if (!out) throw std::runtime_error("cannot write " + path.string() + ": " + std::strerror(errno != 0 ? errno : EIO));
}

}  // namespace

file_journal::file_journal(const plan& plan, run_folder folder, std::unique_ptr<display> shown,
                           const file_journal_options& options)
    : plan_(plan),
      folder_(std::move(folder)),
      shown_(std::move(shown)),
      metrics_(folder_ / "metrics.jsonl", std::ios::binary | (options.continues ? std::ios::app : std::ios::trunc)),
      epochs_(options.continues ? read_text(folder_ / "epochs.csv") : csv_header() + '\n'),
      about_(options.about),
      warn_(options.warn),
      disk_(options.disk) {
  check(metrics_, folder_ / "metrics.jsonl");
  folder_.write("topology.toml", topology::print(plan_.file));
  folder_.write("epochs.csv", epochs_);
  for (const auto& [option, path] : options.beside) {
    beside_.push_back({option, path, options.continues ? read_text(path) : std::string(beginning_of(option))});
    write_aside(path, beside_.back().text);
  }
}

file_journal::~file_journal() {
  if (!latest_ || latest_->event == "end") return;
  record end = *latest_;
  end.event = "end";
  end.status = "failed";
  end.step = std::max(end.step, progress_);
  end.updates = std::max(end.updates, end.step);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begun_;
  end.seconds = std::max(end.seconds, simulated_end_.value_or(seconds_before_ + elapsed.count()));
  end.samples_per_second = end.data_wait = end.epoch_seconds = end.epoch_train_loss = {};
  end.train_loss_workers.clear();
  end.staleness_counts.clear();
  end.workers.clear();
  try {
    write(end);
  } catch (const std::exception&) {  // the run may have failed because nothing can be written
    shown_->write(end);
  }
}

void file_journal::write(const record& line) {
  if (!latest_) {
    begun_ = std::chrono::steady_clock::now();
    seconds_before_ = line.seconds;
  }
  metrics_ << json_line(line) << '\n' << std::flush;
  check(metrics_, folder_ / "metrics.jsonl");
  if (line.event == "epoch") {
    epochs_ += csv_line(line) + '\n';
    folder_.write("epochs.csv", epochs_);
  }
  if (line.event == "end" && !line.workers.empty()) folder_.write("workers.csv", csv_of_workers(line.workers));
  for (auto& file : beside_) {
    const auto added = addition_of(file.option, line);
    if (added.empty()) continue;
    file.text += added;
    write_aside(file.path, file.text);
  }
  shown_->write(line);
  latest_ = line;
  // Last, and not in the constructor: fonts and plugins take a moment, for which neither the first step nor its user
  // should wait.
  if (!drawn_) folder_.write("graph.svg", to_svg(to_dot(plan_)));
  drawn_ = true;
}

void file_journal::write_links(const std::vector<emulation::wire_usage>& links) const {
  if (plan_.links.empty() || !latest_) return;
  folder_.write("links.csv", csv_of_links(links, latest_->seconds - seconds_before_));
}

void file_journal::progress(std::uint64_t step) {
  progress_ = step;
  shown_->progress(step);
}

namespace {

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// The settings of a section that are among `read`, but for paths: those say where this machine keeps things.
std::vector<std::string> settings_of(const topology::topology& file, const std::string& section,
                                     const std::vector<std::string>& read) {
  const std::vector<std::string> elsewhere{"script", "file", "test_file", "mapped"};
  std::vector<std::string> settings;
  for (const auto& line : topology::lines_of(*topology::find_section(section), file, 0))
    if (contains(read, line.name) && !contains(elsewhere, line.name))
      settings.push_back(section + "." + line.name + "=" + line.value);
  return settings;
}

/// What makes the model, and the samples of a set that needs no files, what they are.
std::vector<std::string> made_by(const plan& plan) {
  auto settings = settings_of(plan.file, "model", plan.model->reads);
  const auto& held_out = plan.file.data.validation;
  if (held_out) settings.push_back("data.validation=" + topology::to_toml(*held_out));
  if (held_out || contains(plan.data->reads, "rows"))
    settings.push_back("run.seed=" + std::to_string(plan.file.run.seed));
  const auto of_data = settings_of(plan.file, "data", plan.data->reads);
  settings.insert(settings.end(), of_data.begin(), of_data.end());
  return settings;
}

}  // namespace

void file_journal::keep(const snapshot& best) {
  unsaved_best_ = best;
  try {
    write_weights("model_best.safetensors", best);
    unsaved_best_.reset();
  } catch (const std::exception& reason) {
    shown_->make_room();
    warn_(std::string("warning: the best result so far is not saved: ") + reason.what() +
          "; the run continues and tries again at its end");
  }
}

void file_journal::save(const snapshot& result) {
  if (unsaved_best_) write_weights("model_best.safetensors", *unsaved_best_);
  write_weights("model.safetensors", result);
}

checkpoint::manifest file_journal::manifest_now() const {
  auto about = *about_;
  for (const auto* name : {"metrics.jsonl", "epochs.csv"}) disk_->sync(folder_ / name);
  about.outputs = output_sizes(folder_.path());
  for (const auto& file : beside_) {
    disk_->sync(file.path);
    about.options[name_of(file.option).substr(2)] = option_file(file.path);
  }
  return about;
}

std::optional<state_dict> file_journal::checkpoint(const run_state& state, bool copied) {
  if (!about_) return {};
  std::string what = "checkpoint";
  try {
    const auto about = manifest_now();
    checkpoint::write_checkpoint(folder_.path(), state, about, static_cast<std::size_t>(plan_.file.checkpoint.keep),
                                 *disk_);
    what = "copy of the checkpoint";
    if (copied && plan_.keeps_copies(1)) return checkpoint::pack_copy(folder_.path(), state.step, about);
  } catch (const std::exception& reason) {
    shown_->make_room();
    warn_("warning: the " + what + " of step " + std::to_string(state.step) + " is not complete: " + reason.what() +
          "; the run continues, and earlier ones remain");
  }
  return {};
}

void file_journal::report_overdue_copy(std::uint64_t step) {
  shown_->make_room();
  warn_("warning: node " + plan_.nodes.at(1).name + " has not confirmed its copy of the checkpoint of step " +
        std::to_string(step) + " within " + topology::print_duration(plan_.file.run.timeout) +
        " (run.timeout); no further copies are sent until it does");
}

void file_journal::write_weights(std::string_view name, const snapshot& weights) const {
  checkpoint::write_model(folder_ / name,
                          {.model = plan_.model->name,
                           .data = plan_.data->name,
                           .scale = plan_.scale,
                           .loss = models::name_of(plan_.loss),
                           .shape = plan_.data->sample_shape.empty() ? plan_.shape.input : std::vector<std::int64_t>{},
                           .class_names = plan_.facts.class_names,
                           .made_by = made_by(plan_),
                           .tied = plan_.tied,
                           .constants = plan_.constants},
                          plan_.layout, weights.values);
}

}  // namespace troupe::telemetry
