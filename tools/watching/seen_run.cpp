#include "troupe/tools/watching/seen_run.hpp"

#include "troupe/data/formats/utf8.hpp"
#include "troupe/files/json.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::watching {

namespace {

using json = files::json;

constexpr std::size_t name_bytes_max = 200, waiting_bytes_max = 400;

/// Parses JSON. Text that is nested more deeply than that of a dashboard counts as invalid.
json parsed(std::string_view text) {
  constexpr int depth_max = 8;
  bool too_deep = false;
  auto value = json::parse(
      text.begin(), text.end(),
      [&](int depth, json::parse_event_t, const json&) { return !(too_deep |= depth > depth_max); }, false);
  return too_deep ? json(json::value_t::discarded) : value;
}

json at(const json& object, const char* key) {
  return object.is_object() ? object.value(key, json()) : json();
}

std::string text_at(const json& object, const char* key, std::size_t most = name_bytes_max) {
  const auto value = at(object, key);
  return value.is_string() ? data::clipped(data::printable_utf8(value.get<std::string>()), most) : std::string();
}

std::uint64_t count_at(const json& object, const char* key) {
  const auto value = at(object, key);
  return value.is_number_unsigned() ? value.get<std::uint64_t>() : 0;
}

std::optional<double> number_at(const json& object, const char* key) {
  const auto value = at(object, key);
  if (!value.is_number()) return {};
  const auto number = value.get<double>();
  return std::isfinite(number) ? std::optional(number) : std::nullopt;
}

seen_worker worker_of(const json& from) {
  seen_worker result{.steps = count_at(from, "steps"),
                     .samples = count_at(from, "samples"),
                     .bytes_sent = count_at(from, "bytes_sent")};
  const auto share = [&](const char* key) { return std::clamp(number_at(from, key).value_or(0), 0.0, 1.0); };
  if (number_at(from, "compute_share"))
    result.shares = {share("compute_share"), share("data_share"), share("exchange_share")};
  return result;
}

seen_link link_of(const json& from, const char* name) {
  return {.name = text_at(from, name),
          .bytes = number_at(from, "bytes"),
          .rate = number_at(from, "bytes_per_second"),
          .busy = number_at(from, "busy_share"),
          .queue = number_at(from, "queue"),
          .wait_mean = number_at(from, "wait_mean_seconds"),
          .staleness = number_at(from, "staleness")};
}

}  // namespace

std::optional<seen_run> parse_seen_run(std::string_view text) {
  const auto from = parsed(text);
  const auto workers = at(from, "workers");
  if (!workers.is_array() || !at(from, "status").is_string() || !at(from, "step").is_number_unsigned()) return {};
  seen_run result{.title = text_at(from, "title"),
                  .model = text_at(from, "model"),
                  .data = text_at(from, "data"),
                  .status = text_at(from, "status"),
                  .waiting = text_at(from, "waiting", waiting_bytes_max),
                  .simulated = at(from, "simulated") == true,
                  .steps = count_at(from, "steps"),
                  .step = count_at(from, "step"),
                  .bytes_sent = count_at(from, "bytes_sent"),
                  .seconds = number_at(from, "seconds"),
                  .seconds_left = number_at(from, "seconds_left"),
                  .samples_per_second = number_at(from, "samples_per_second"),
                  .train_loss = number_at(from, "train_loss"),
                  .train_accuracy = number_at(from, "train_accuracy"),
                  .val_loss = number_at(from, "val_loss"),
                  .val_accuracy = number_at(from, "val_accuracy"),
                  .lr = number_at(from, "lr"),
                  .consensus_distance = number_at(from, "consensus_distance"),
                  .staleness_mean = number_at(from, "staleness_mean")};
  for (const auto& worker : workers) result.workers.push_back(worker_of(worker));
  const auto add_all = [&](const char* list, const char* name, std::vector<seen_link>& to) {
    const auto rows = at(from, list);
    if (!rows.is_array()) return;
    for (const auto& row : rows) to.push_back(link_of(row, name));
  };
  add_all("links", "link", result.links);
  add_all("edges", "edge", result.edges);
  return result;
}

std::string clean_json(std::string_view text) {
  const auto from = parsed(text);
  return from.is_discarded() ? std::string() : files::json_text(from, {.ascii = true});
}

}  // namespace troupe::watching
