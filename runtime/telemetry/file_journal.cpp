#include "troupe/runtime/telemetry/file_journal.hpp"

#include "troupe/runtime/checkpoint/model_file.hpp"
#include "troupe/runtime/support/write_aside.hpp"
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
                           const std::map<pattern_option, std::filesystem::path>& beside)
    : plan_(plan),
      folder_(std::move(folder)),
      shown_(std::move(shown)),
      metrics_(folder_ / "metrics.jsonl", std::ios::binary | std::ios::trunc),
      epochs_(csv_header() + '\n') {
  check(metrics_, folder_ / "metrics.jsonl");
  folder_.write("topology.toml", topology::print(plan_.file));
  folder_.write("epochs.csv", epochs_);
  for (const auto& [option, path] : beside) {
    beside_.push_back({option, path, std::string(beginning_of(option))});
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
  end.seconds = std::max(end.seconds, elapsed.count());
  end.samples_per_second = end.data_wait = end.epoch_seconds = end.epoch_train_loss = {};
  end.train_loss_workers.clear();
  try {
    write(end);
  } catch (const std::exception&) {  // the run may have failed because nothing can be written
    shown_->write(end);
  }
}

void file_journal::write(const record& line) {
  if (!latest_) begun_ = std::chrono::steady_clock::now();
  metrics_ << json_line(line) << '\n' << std::flush;
  check(metrics_, folder_ / "metrics.jsonl");
  if (line.event == "epoch") {
    epochs_ += csv_line(line) + '\n';
    folder_.write("epochs.csv", epochs_);
  }
  for (auto& file : beside_) {
    const auto added = addition_of(file.option, line);
    if (added.empty()) continue;
    file.text += added;
    write_aside(file.path, file.text);
  }
  // Here rather than in the constructor: fonts and plugins take a moment, and the first step should not wait for it.
  if (!drawn_) folder_.write("graph.svg", to_svg(to_dot(plan_)));
  drawn_ = true;
  shown_->write(line);
  latest_ = line;
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
  write_weights("model_best.safetensors", best);
}

void file_journal::save(const snapshot& result) {
  write_weights("model.safetensors", result);
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
