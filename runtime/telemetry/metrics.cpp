#include "troupe/runtime/telemetry/metrics.hpp"

#include "troupe/algorithms/messages/message_state.hpp"
#include "troupe/data/formats/utf8.hpp"
#include "troupe/files/json.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>

namespace troupe::telemetry {

namespace {

using json = files::json;

json number(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? json(*value) : json(nullptr);
}

json json_of(const std::optional<steering_note>& note) {
  if (!note) return nullptr;
  json object{{"what", note->what}, {"guest", note->guest.empty() ? json(nullptr) : json(note->guest)}};
  if (note->lr) object.update(json{{"lr", number(note->lr)}, {"from", note->from}});
  return object;
}

json text_or_null(const std::string& text) {
  return text.empty() ? json(nullptr) : json(text);
}

json count(const std::optional<double>& value) {
  return value ? json(static_cast<std::uint64_t>(*value)) : json(nullptr);
}

/// Returns the numbers, or null if there are none.
json list(const std::vector<double>& values) {
  if (values.empty()) return nullptr;
  json numbers = json::array();
  for (const auto value : values) numbers.push_back(number(value));
  return numbers;
}

/// Returns an object with the previous and the current value of each setting, or null if there are none.
json json_of(const std::vector<topology::changed_setting>& changed) {
  json object;
  for (const auto& setting : changed) object[setting.key] = json::array({setting.before, setting.now});
  return object;
}

std::string cell(const std::optional<double>& value) {
  const auto text = number(value);
  return text.is_null() ? "" : files::json_text(text);
}

}  // namespace

std::string json_line(const record& line, const std::optional<origin>& about,
                      const std::vector<topology::changed_setting>& changed) {
  const bool is_end = line.event == "end", begins = line.event == "start" || line.event == "resume";
  const json object{
      {"event", line.event},
      {"epoch", line.epoch},
      {"step", line.step},
      {"updates", line.updates},
      {"seconds", number(line.seconds)},
      {"train_seconds", number(line.train_seconds)},
      {"samples_per_second", number(line.samples_per_second)},
      {"train_loss", number(line.train_loss)},
      {"train_accuracy", number(line.train_accuracy)},
      {"val_loss", number(line.val_loss)},
      {"val_accuracy", number(line.val_accuracy)},
      {"val_top_k_accuracy", number(line.val_top_k_accuracy)},
      {"val_accuracy_workers", list(line.val_accuracy_workers)},
      {"lr", number(line.lr)},
      {"epoch_seconds", number(line.epoch_seconds)},
      {"epoch_train_loss", number(line.epoch_train_loss)},
      {"data_wait", number(line.data_wait)},
      {"train_loss_workers", list(line.train_loss_workers)},
      {"bytes_sent", line.bytes_sent},
      {"staleness_mean", number(line.staleness_mean)},
      {"staleness_max", number(line.staleness_max)},
      {"staleness_counts", is_end && !line.staleness_counts.empty() ? json(line.staleness_counts) : json(nullptr)},
      {"gradients_refused", count(line.gradients_refused)},
      {"consensus_distance", number(line.consensus_distance)},
      {"consensus_distance_before", number(line.consensus_distance_before)},
      {"consensus_distance_after", number(line.consensus_distance_after)},
      {"consensus_distance_max", number(line.consensus_distance_max)},
      {"status", text_or_null(line.status)},
      {"stopped_by", text_or_null(line.stopped_by)},
      {"steered", json_of(line.steered)},
      {"origin", about && begins ? files::parse_json(json_of(*about)) : json(nullptr)},
      {"changed", line.event == "resume" ? json_of(changed) : json(nullptr)}};
  return files::json_text(object);
}

std::optional<record> record_of(std::string_view json_line) {
  const auto line = files::parse_json(json_line);
  if (!line.is_object()) return {};
  record parsed;
  const auto find = [&](const char* key) { return line.contains(key) ? line.at(key) : json(nullptr); };
  const auto read_count = [&](const char* key, std::uint64_t& value) {
    if (const auto entry = find(key); entry.is_number_unsigned()) value = entry.get<std::uint64_t>();
  };
  const auto read = [&](const char* key, auto& value) {
    if (const auto entry = find(key); entry.is_number()) value = entry.get<double>();
  };
  const auto read_list = [&](const char* key, std::vector<double>& values) {
    for (const auto& element : find(key))
      values.push_back(element.is_number() ? element.get<double>() : std::numeric_limits<double>::quiet_NaN());
  };
  if (const auto event = find("event"); event.is_string()) parsed.event = event.get<std::string>();
  if (const auto status = find("status"); status.is_string()) parsed.status = status.get<std::string>();
  if (const auto by = find("stopped_by"); by.is_string()) parsed.stopped_by = by.get<std::string>();
  if (const auto note = find("steered"); note.is_object()) {
    const auto text = [&](const char* key) {
      const auto entry = note.find(key);
      return entry != note.end() && entry->is_string() ? entry->get<std::string>() : std::string();
    };
    parsed.steered = steering_note{.what = text("what"), .guest = text("guest"), .lr = files::number_at(note, "lr")};
    parsed.steered->from = static_cast<std::uint64_t>(files::number_at(note, "from").value_or(0));
  }
  read_count("epoch", parsed.epoch);
  read_count("step", parsed.step);
  read_count("updates", parsed.updates);
  read_count("bytes_sent", parsed.bytes_sent);
  read("seconds", parsed.seconds);
  read("train_seconds", parsed.train_seconds);
  for (const auto& [key, field] : optional_numbers()) read(key, parsed.*field);
  read_list("val_accuracy_workers", parsed.val_accuracy_workers);
  read_list("train_loss_workers", parsed.train_loss_workers);
  return parsed;
}

std::vector<record> records_of(std::string_view metrics) {
  std::vector<record> records;
  while (!metrics.empty()) {
    const auto line = metrics.substr(0, metrics.find('\n'));
    metrics.remove_prefix(std::min(metrics.size(), line.size() + 1));
    if (auto parsed = record_of(line)) records.push_back(std::move(*parsed));
  }
  return records;
}

std::string json_line(const evaluation& found, const std::vector<named_counts>& classes) {
  json object{{"loss", number(found.loss)}, {"accuracy", number(found.accuracy)}, {"sample_count", found.sample_count}};
  if (found.top_k_accuracy) object["top_k_accuracy"] = number(found.top_k_accuracy);
  for (const auto& [name, counts] : classes) {
    const auto merit = rules::merit_of(counts);
    object["classes"].push_back({{"class", name},
                                 {"precision", merit.precision},
                                 {"recall", merit.recall},
                                 {"f1", merit.f1},
                                 {"samples", counts.samples}});
  }
  return files::json_text(object);
}

std::string table_of(const std::vector<named_counts>& classes) {
  std::size_t width = std::string("macro average").size();
  for (const auto& [name, counts] : classes) width = std::max(width, data::printable_utf8(name).size());
  const auto label = [&](const std::string& text) { return text + std::string(width - text.size(), ' '); };
  const auto row = [&](const std::string& name, const rules::class_merit& merit, std::int64_t samples) {
    std::array<char, 80> cells{};
    std::snprintf(cells.data(), cells.size(), "  %9.4f  %9.4f  %9.4f  %9lld\n", merit.precision, merit.recall, merit.f1,
                  static_cast<long long>(samples));
    return label(name) + cells.data();
  };
  auto text = label("class") + "  precision     recall         F1    samples\n";
  rules::class_merit mean;
  rules::class_counts total;
  const auto share = 1 / static_cast<double>(std::max<std::size_t>(classes.size(), 1));
  for (const auto& [name, counts] : classes) {
    const auto merit = rules::merit_of(counts);
    text += row(data::printable_utf8(name), merit, counts.samples);
    mean = {mean.precision + share * merit.precision, mean.recall + share * merit.recall, mean.f1 + share * merit.f1};
    total.samples += counts.samples;
    total.correct += counts.correct;
  }
  text += row("macro average", mean, total.samples);
  std::array<char, 80> cells{};
  std::snprintf(cells.data(), cells.size(), "  %9s  %9s  %9.4f  %9lld\n", "", "", rules::merit_of(total).recall,
                static_cast<long long>(total.samples));
  return text + label("accuracy") + cells.data();
}

std::string csv_header() {
  return "epoch,step,seconds,samples_per_second,train_loss,val_loss,val_accuracy,bytes_sent,epoch_seconds,lr,"
         "train_seconds,train_accuracy,epoch_train_loss";
}

std::string csv_line(const record& line) {
  return std::to_string(line.epoch) + ',' + std::to_string(line.step) + ',' + cell(line.seconds) + ',' +
         cell(line.samples_per_second) + ',' + cell(line.train_loss) + ',' + cell(line.val_loss) + ',' +
         cell(line.val_accuracy) + ',' + std::to_string(line.bytes_sent) + ',' + cell(line.epoch_seconds) + ',' +
         cell(line.lr) + ',' + cell(line.train_seconds) + ',' + cell(line.train_accuracy) + ',' +
         cell(line.epoch_train_loss);
}

std::string csv_of_workers(const std::vector<worker_total>& workers) {
  std::string text =
      "worker,steps,samples,bytes_sent,busy_seconds,data_wait_seconds,exchange_wait_seconds,cpu_seconds,"
      "loading_cpu_seconds\n";
  for (std::size_t rank = 0; rank < workers.size(); ++rank) {
    const auto& worker = workers[rank];
    text += std::to_string(rank) + ',' + std::to_string(worker.steps) + ',' + std::to_string(worker.samples) + ',' +
            std::to_string(worker.bytes_sent);
    for (const auto seconds : {worker.busy, worker.data_wait, worker.exchange_wait, worker.cpu, worker.loading_cpu})
      text += ',' + files::json_text(seconds);
    text += '\n';
  }
  return text;
}

std::string csv_of_links(const std::vector<emulation::wire_usage>& links, std::optional<double> seconds) {
  std::string text = "interface,direction,messages,bytes,busy_seconds,busy_share,wait_mean_seconds,wait_max_seconds\n";
  const auto in_seconds = [](std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); };
  for (const auto& link : links) {
    text += link.name + (link.sends ? ",send," : ",receive,") + std::to_string(link.messages) + ',' +
            std::to_string(link.bytes);
    const auto busy = in_seconds(link.busy);
    const auto mean = link.messages > 0 ? in_seconds(link.waited) / static_cast<double>(link.messages) : 0;
    const auto share = seconds ? std::optional{*seconds > 0 ? busy / *seconds : 0} : std::nullopt;
    for (const auto& number :
         {std::optional{busy}, share, std::optional{mean}, std::optional{in_seconds(link.longest_wait)}})
      text += ',' + cell(number);
    text += '\n';
  }
  return text;
}

}  // namespace troupe::telemetry
