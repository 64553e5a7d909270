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
                    {"staleness_counts", line.staleness_counts.empty() ? json(nullptr) : json(line.staleness_counts)},
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

std::string csv_line(const record& line) {
  return std::to_string(line.epoch) + ',' + std::to_string(line.step) + ',' + cell(line.seconds) + ',' +
         cell(line.samples_per_second) + ',' + cell(line.train_loss) + ',' + cell(line.val_loss) + ',' +
         cell(line.val_accuracy) + ',' + std::to_string(line.bytes_sent);
}

}  // namespace troupe::telemetry
