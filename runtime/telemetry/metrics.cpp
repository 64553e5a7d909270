#include "troupe/runtime/telemetry/metrics.hpp"

#include <nlohmann/json.hpp>

#include <cmath>

namespace troupe::telemetry {

namespace {

using json = nlohmann::ordered_json;

json number(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? json(*value) : json(nullptr);
}

std::string cell(const std::optional<double>& value) {
  const auto text = number(value);
  return text.is_null() ? "" : text.dump();
}

}  // namespace

std::string json_line(const record& line) {
  const json object{{"event", line.event},
                    {"epoch", line.epoch},
                    {"step", line.step},
                    {"updates", line.updates},
                    {"seconds", number(line.seconds)},
                    {"samples_per_second", number(line.samples_per_second)},
                    {"train_loss", number(line.train_loss)},
                    {"val_loss", number(line.val_loss)},
                    {"val_accuracy", number(line.val_accuracy)},
                    {"bytes_sent", line.bytes_sent},
                    {"staleness_mean", number(line.staleness_mean)},
                    {"staleness_max", number(line.staleness_max)},
                    {"consensus_distance", number(line.consensus_distance)},
                    {"status", line.status.empty() ? json(nullptr) : json(line.status)}};
  return object.dump();
}

std::string json_line(const evaluation& found) {
  const json object{
      {"loss", number(found.loss)}, {"accuracy", number(found.accuracy)}, {"sample_count", found.sample_count}};
  return object.dump();
}

std::string csv_header() {
  return "epoch,step,seconds,samples_per_second,train_loss,val_loss,val_accuracy,bytes_sent";
}

std::string csv_line(const epoch_row& row) {
  return std::to_string(row.epoch) + ',' + std::to_string(row.step) + ',' + cell(row.seconds) + ',' +
         cell(row.samples_per_second) + ',' + cell(row.train_loss) + ',' + cell(row.val_loss) + ',' +
         cell(row.val_accuracy) + ',' + std::to_string(row.bytes_sent);
}

epoch_join::epoch_join(std::uint64_t evaluate_every, std::uint64_t last_step)
    : evaluate_every_(evaluate_every), last_step_(last_step) {}

bool epoch_join::complete(const epoch_row& row) const {
  const bool expected = row.step == last_step_ || (evaluate_every_ > 0 && row.step % evaluate_every_ == 0);
  return row.val_accuracy || !expected;
}

std::vector<epoch_row> epoch_join::take(const record& line) {
  if (line.event == "epoch")
    waiting_[line.step] = {.epoch = line.epoch,
                           .step = line.step,
                           .seconds = line.seconds,
                           .samples_per_second = line.samples_per_second,
                           .train_loss = line.train_loss,
                           .val_loss = line.val_loss,
                           .val_accuracy = line.val_accuracy,
                           .bytes_sent = line.bytes_sent};
  if (line.event == "evaluation") latest_ = line;
  if (const auto found = latest_ ? waiting_.find(latest_->step) : waiting_.end(); found != waiting_.end()) {
    found->second.val_loss = latest_->val_loss;
    found->second.val_accuracy = latest_->val_accuracy;
  }
  std::vector<epoch_row> ready;
  while (!waiting_.empty() && (complete(waiting_.begin()->second) || line.event == "end")) {
    ready.push_back(waiting_.begin()->second);
    waiting_.erase(waiting_.begin());
  }
  return ready;
}

}  // namespace troupe::telemetry
