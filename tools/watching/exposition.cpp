#include "troupe/tools/watching/exposition.hpp"

#include "troupe/algorithms/messages/journal.hpp"
#include "troupe/data/formats/utf8.hpp"
#include "troupe/tools/watching/summary.hpp"
#include "troupe/tools/watching/traffic.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

namespace troupe::watching {

namespace {

std::string sample_text(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.12g", value);
  return text.data();
}

/// Returns the value of a label: UTF-8 without control characters, with backslashes before quotes and backslashes.
std::string label_value(const std::string& text) {
  std::string safe;
  for (const char c : data::printable_utf8(text)) {
    if (c == '\\' || c == '"') safe += '\\';
    safe += c;
  }
  return safe;
}

/// Collects metrics.
class exposition {
 public:
  void counter(const std::string& name, const std::string& help, const std::optional<double>& value) {
    add(name, help, "counter", value);
  }
  void gauge(const std::string& name, const std::string& help, const std::optional<double>& value) {
    add(name, help, "gauge", value);
  }

  /// Adds a metric with one series for each rank.
  void of_workers(const std::string& name, const std::string& help, const char* type,
                  const std::vector<double>& values) {
    if (values.empty() || values.size() > progress_by_worker_max) return;
    begin(name, help, type);
    for (std::size_t rank = 0; rank < values.size(); ++rank)
      if (!std::isnan(values[rank])) sample(name + "{rank=\"" + std::to_string(rank) + "\"}", values[rank]);
  }

  void begin(const std::string& name, const std::string& help, const char* type) {
    text_ += "# HELP " + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
  }
  void sample(const std::string& series, double value) { text_ += series + " " + sample_text(value) + "\n"; }

  std::string text() && { return std::move(text_); }

 private:
  void add(const std::string& name, const std::string& help, const char* type, const std::optional<double>& value) {
    if (!value || std::isnan(*value)) return;
    begin(name, help, type);
    sample(name, *value);
  }

  std::string text_;
};

void add_facts(exposition& to, const run_facts& facts, const history_state& state) {
  to.begin("troupe_run_info", "What is trained; the value is always 1.", "gauge");
  to.sample("troupe_run_info{topology=\"" + label_value(facts.title) + "\",model=\"" + label_value(facts.model) +
                "\",data=\"" + label_value(facts.data) + "\",simulated=\"" + (facts.simulated ? "true" : "false") +
                "\"}",
            1);
  to.begin("troupe_run_status", "1 for the status of the run: waiting, training, or how it has ended.", "gauge");
  to.sample("troupe_run_status{status=\"" + label_value(state.status()) + "\"}", 1);
  to.gauge("troupe_workers", "Number of workers.", facts.workers);
  to.gauge("troupe_run_steps", "Steps of the whole run.", static_cast<double>(facts.steps));
}

void add_progress(exposition& to, const run_facts& facts, const history_state& state) {
  const auto& by_worker = state.steps_by_worker;
  double mean = static_cast<double>(state.steps);
  if (!by_worker.empty()) {
    double sum = 0;
    for (const auto steps : by_worker) sum += static_cast<double>(steps);
    mean = std::max(mean, sum / static_cast<double>(by_worker.size()));
  }
  to.counter("troupe_steps_total", "Steps that every worker has completed.", static_cast<double>(state.steps));
  to.counter("troupe_samples_total", "Training samples of the completed steps of all workers, in full batches.",
             std::floor(mean * static_cast<double>(facts.samples_per_step)));
  if (!state.latest) return;
  const auto& latest = *state.latest;
  to.counter("troupe_updates_total", "Updates of the resulting weights.", static_cast<double>(latest.updates));
  to.counter("troupe_epochs_total", "Completed epochs.", static_cast<double>(latest.epoch));
  to.counter("troupe_bytes_sent_total", "Tensor bytes that all members have sent.",
             static_cast<double>(latest.bytes_sent));
  to.counter("troupe_gradients_refused_total", "Gradients that servers have refused because they came too late.",
             latest.gradients_refused);
  to.gauge("troupe_run_seconds", "Seconds from the first step to the last record.", latest.seconds);
  to.gauge("troupe_samples_per_second", "Training samples of all workers per second.",
           samples_per_second(facts, state));
}

void add_results(exposition& to, const history_state& state) {
  to.gauge("troupe_train_loss", "Mean training loss since the last record.", state.last(&record::train_loss));
  to.gauge("troupe_train_accuracy", "Share of training samples classified correctly, from 0 to 1.",
           state.last(&record::train_accuracy));
  to.gauge("troupe_validation_loss", "Mean loss over the validation set.", state.last(&record::val_loss));
  to.gauge("troupe_validation_accuracy", "Share of the validation set classified correctly, from 0 to 1.",
           state.last(&record::val_accuracy));
  to.gauge("troupe_learning_rate", "Learning rate of the last step.", state.last(&record::lr));
  to.gauge("troupe_data_wait_ratio", "Share of the computing time spent waiting for samples, from 0 to 1.",
           state.last(&record::data_wait));
  to.gauge("troupe_consensus_distance", "Root mean square distance of the workers from their mean.",
           state.last(&record::consensus_distance));
  to.gauge("troupe_staleness_mean", "Mean staleness of the gradients since the last record.",
           state.last(&record::staleness_mean));
}

/// Adds the staleness of all gradients of the run as a histogram.
void add_staleness(exposition& to, const history_state& state) {
  const auto& counts = state.staleness;
  if (counts.empty()) return;
  const std::string name = "troupe_gradient_staleness";
  to.begin(name, "Updates between the computation of a gradient and its application.", "histogram");
  double below = 0, sum = 0;
  std::size_t next = 0;
  for (const std::size_t bound : {0, 1, 2, 4, 8, 16, 32, 64, 128}) {
    for (; next < counts.size() && next <= bound; ++next) {
      below += static_cast<double>(counts[next]);
      sum += static_cast<double>(next) * static_cast<double>(counts[next]);
    }
    to.sample(name + "_bucket{le=\"" + std::to_string(bound) + "\"}", below);
  }
  for (; next < counts.size(); ++next) {
    below += static_cast<double>(counts[next]);
    sum += static_cast<double>(next) * static_cast<double>(counts[next]);
  }
  to.sample(name + "_bucket{le=\"+Inf\"}", below);
  to.sample(name + "_sum", sum);
  to.sample(name + "_count", below);
}

void add_workers(exposition& to, const history_state& state) {
  const auto values = [&](auto value_of) {
    std::vector<double> column;
    for (const auto& worker : state.workers) column.push_back(static_cast<double>(value_of(worker)));
    return column;
  };
  std::vector<double> steps;
  for (std::size_t rank = 0; rank < std::max(state.workers.size(), state.steps_by_worker.size()); ++rank) {
    const auto reported = rank < state.workers.size() ? state.workers[rank].steps : 0;
    const auto fresh = rank < state.steps_by_worker.size() ? state.steps_by_worker[rank] : 0;
    steps.push_back(static_cast<double>(std::max(reported, fresh)));
  }
  to.of_workers("troupe_worker_steps_total", "Steps that the worker has completed.", "counter", steps);
  to.of_workers("troupe_worker_samples_total", "Training samples of the worker up to the last record.", "counter",
                values([](const auto& worker) { return worker.samples; }));
  to.of_workers("troupe_worker_bytes_sent_total", "Tensor bytes that the worker has sent.", "counter",
                values([](const auto& worker) { return worker.bytes_sent; }));
  to.of_workers("troupe_worker_busy_seconds_total", "Seconds in which the worker computed or waited for samples.",
                "counter", values([](const auto& worker) { return worker.busy; }));
  to.of_workers("troupe_worker_data_wait_seconds_total", "Seconds in which the worker waited for samples.", "counter",
                values([](const auto& worker) { return worker.data_wait; }));
  to.of_workers("troupe_worker_exchange_wait_seconds_total", "Seconds in which the worker waited for exchanges.",
                "counter", values([](const auto& worker) { return worker.exchange_wait; }));
  const auto latest = [&](std::vector<double> record::*field) {
    for (auto line = state.lines.rbegin(); line != state.lines.rend(); ++line)
      if (!((*line).*field).empty()) return (*line).*field;
    return std::vector<double>{};
  };
  to.of_workers("troupe_worker_train_loss", "Mean training loss of the worker since the last record.", "gauge",
                latest(&record::train_loss_workers));
  to.of_workers("troupe_worker_validation_accuracy", "Validation accuracy of the worker's own parameters.", "gauge",
                latest(&record::val_accuracy_workers));
}

/// Adds what edges and emulated links have carried.
void add_traffic(exposition& to, const run_facts& facts, const history_state& state) {
  const auto add_all = [&](const auto& rows, const std::string& name, const std::string& help, auto label, auto value) {
    if (rows.empty()) return;
    to.begin(name, help, "counter");
    for (const auto& row : rows) to.sample(name + "{" + label(row) + "}", value(row));
  };
  auto edges = edges_of(facts, state);
  std::erase_if(edges, [](const auto& row) { return !row.measured; });
  const auto edge = [](const auto& row) { return "edge=\"" + label_value(row.name) + "\""; };
  add_all(edges, "troupe_edge_bytes_total", "Tensor bytes sent from one worker or server to another one.", edge,
          [](const auto& row) { return static_cast<double>(row.bytes); });
  add_all(edges, "troupe_edge_messages_total", "Messages sent from one worker or server to another one.", edge,
          [](const auto& row) { return static_cast<double>(row.messages); });
  const auto& wires = state.traffic.wires;
  const auto wire = [](const auto& row) {
    return "link=\"" + label_value(row.name) + "\",direction=\"" + (row.sends ? "send" : "receive") + "\"";
  };
  const auto seconds = [](auto time) { return std::chrono::duration<double>(time).count(); };
  add_all(wires, "troupe_link_bytes_total", "Bytes that an emulated link has carried.", wire,
          [](const auto& row) { return static_cast<double>(row.bytes); });
  add_all(wires, "troupe_link_messages_total", "Messages that an emulated link has carried.", wire,
          [](const auto& row) { return static_cast<double>(row.messages); });
  add_all(wires, "troupe_link_busy_seconds_total", "Seconds in which an emulated link was occupied.", wire,
          [&](const auto& row) { return seconds(row.busy); });
  add_all(wires, "troupe_link_wait_seconds_total", "Seconds that messages waited for an emulated link to be free.",
          wire, [&](const auto& row) { return seconds(row.waited); });
}

}  // namespace

std::string exposition_of(const run_facts& facts, const history_state& state) {
  exposition result;
  add_facts(result, facts, state);
  add_progress(result, facts, state);
  add_results(result, state);
  add_staleness(result, state);
  add_workers(result, state);
  add_traffic(result, facts, state);
  return std::move(result).text();
}

}  // namespace troupe::watching
