#include "troupe/runtime/telemetry/tensorboard.hpp"

#include "troupe/algorithms/messages/journal_filter.hpp"
#include "troupe/files/json.hpp"
#include "troupe/runtime/support/appended_file.hpp"
#include "troupe/runtime/support/read_text.hpp"
#include "troupe/runtime/telemetry/event_file.hpp"
#include "troupe/runtime/telemetry/metrics.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

namespace troupe::telemetry {

namespace fs = std::filesystem;

namespace {

using json = files::json;

constexpr std::string_view prefix = "events.out.tfevents.";

/// Returns the time in the name of an event file, in seconds since 1970.
std::uint64_t time_of(const fs::path& path) {
  const auto name = path.filename().string();
  std::uint64_t time = 0;
  std::from_chars(name.data() + prefix.size(), name.data() + name.size(), time);
  return time;
}

/// Returns the time of the newest event file in a folder, or nothing if there is none.
std::optional<std::uint64_t> newest_in(const fs::path& folder) {
  std::optional<std::uint64_t> newest;
  std::error_code failed;  // the folder may be gone for a moment
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed))
    if (is_event_file(entry->path())) newest = std::max(newest.value_or(0), time_of(entry->path()));
  return newest;
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

/// Returns whether the value of `key` in the last line of a run does not belong to the step of that line, but to the
/// whole run or to an earlier evaluation.
bool belongs_elsewhere(const std::string& key) {
  return key == "samples_per_second" || key == "data_wait" || key.starts_with("val_");
}

class event_journal : public journal_filter {
 public:
  event_journal(std::shared_ptr<journal> journal, tensorboard_options options)
      : journal_filter(std::move(journal)), options_(std::move(options)) {}

  void write(const record& line) override {
    if (!out_) begin(line.seconds);
    add(files::parse_json(json_line(line)));
    options_.outputs->write(out_->path().filename().string(), [out = out_] { out->flush(); });
    journal_filter::write(line);  // last: at the end of the run, it waits for what is not written yet
    if (line.event == "end" && out_->dropped() > 0)
      options_.outputs->warn(out_->path().string() + " lacks values that could not be written in time");
  }

 private:
  /// Starts the file, `seconds` after the run began. The file of a continued run begins with the lines that
  /// metrics.jsonl has kept, and replaces the content of earlier files. These cannot be cut at a step, because an
  /// evaluation may finish after the checkpoint of a later step.
  void begin(double seconds) {
    using namespace std::chrono;
    const auto now = options_.simulated ? 0.0 : duration<double>(system_clock::now().time_since_epoch()).count();
    began_ = now - seconds;
    const auto newest = newest_in(options_.folder);
    auto time = static_cast<std::uint64_t>(now);
    if (newest) time = std::max(time, *newest + 1);  // TensorBoard reads the files in the order of their names
    std::array<char, 24> digits{};
    std::snprintf(digits.data(), digits.size(), "%010llu", static_cast<unsigned long long>(time));
    const auto name = std::string(prefix) + digits.data() + "." + (options_.simulated ? "simulation" : host_name());
    out_ = std::make_shared<appended_file>(appended_file::options{.path = options_.folder / name});
    out_->add(event_file::beginning(now));
    if (!options_.continues) return;
    if (newest) out_->add(event_file::restart(now));
    std::istringstream lines{read_text(options_.folder / "metrics.jsonl")};
    for (std::string line; std::getline(lines, line);) {
      const auto object = files::parse_json(line);
      if (object.is_object()) add(object);
    }
  }

  /// Adds the values of a line of metrics.jsonl that no line of the same step has added yet.
  void add(const json& line) {
    if (line.value("event", "") == "resume" || line.value("event", "") == "steered") return;
    const auto step = line.value("step", std::uint64_t{0});
    const auto last = line.value("event", "") == "end";
    event_file::summary added;
    const auto scalar = [&](const std::string& tag, const json& value) {
      if (!value.is_number()) return;
      const auto [known, is_new] = steps_.emplace(tag, step);
      if (!is_new && known->second >= step) return;
      known->second = step;
      added.scalars.emplace_back(tag, value.get<double>());
    };
    for (const auto& [key, value] : line.items()) {
      if (key == "step" || (last && belongs_elsewhere(key))) continue;
      if (key == "staleness_counts") {
        if (value.is_array()) added.histograms.emplace_back("staleness", value.get<std::vector<double>>());
      } else if (value.is_array()) {
        for (std::size_t rank = 0; rank < value.size(); ++rank) scalar(key + "/" + std::to_string(rank), value[rank]);
      } else {
        scalar(key, value);
      }
    }
    if (!added.empty()) out_->add(event_file::values(began_ + line.value("seconds", 0.0), step, added));
  }

  tensorboard_options options_;
  std::shared_ptr<appended_file> out_;          ///< Shared with a retry, which may outlive this journal.
  double began_{0};                             ///< When the run began, in seconds since 1970.
  std::map<std::string, std::uint64_t> steps_;  ///< Last step that has a value, by tag.
};

}  // namespace

bool is_event_file(const fs::path& path) {
  return path.filename().string().starts_with(prefix);
}

std::shared_ptr<journal> with_event_file(std::shared_ptr<journal> journal, const tensorboard_options& options) {
  return std::make_shared<event_journal>(std::move(journal), options);
}

}  // namespace troupe::telemetry
