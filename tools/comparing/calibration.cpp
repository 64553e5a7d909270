#include "troupe/tools/comparing/calibration.hpp"

#include "troupe/files/error.hpp"
#include "troupe/files/json.hpp"
#include "troupe/files/text.hpp"
#include "troupe/runtime/support/read_text.hpp"
#include "troupe/runtime/telemetry/metrics.hpp"
#include "troupe/runtime/topology/canonical.hpp"
#include "troupe/runtime/topology/load.hpp"
#include "troupe/runtime/topology/value.hpp"
#include "troupe/tools/comparing/statistics.hpp"
#include "troupe/tools/comparing/words.hpp"
#include "troupe/tools/results/tables.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>

namespace troupe::comparing {

namespace fs = std::filesystem;
using json = files::json;
using std::chrono::microseconds;

namespace {

/// Prefixes of keys that may differ: these keys place the workers or determine how long operations take.
constexpr std::array placement{"link.", "node.", "transport."};

/// Reads the lines of metrics.jsonl. Returns whether the run has finished.
bool read_metrics(const fs::path& path, run_figures& into) {
  bool finished = false;
  std::vector<std::optional<double>> epochs;
  for (const auto& line : telemetry::records_of(read_text(path))) {
    if (line.event == "resume") return false;  // its times may come from two machines, or from one under two loads
    if (line.event == "epoch") epochs.push_back(line.epoch_seconds);
    if (line.event != "end") continue;
    finished = line.status == "done";
    into.train_seconds = line.train_seconds;
    into.bytes_sent = static_cast<double>(line.bytes_sent);
    into.samples_per_second = line.samples_per_second;
    into.staleness_mean = line.staleness_mean;
  }
  if (const auto spread = spread_of(epochs)) into.epoch_seconds = spread->median;
  return finished && into.train_seconds > 0;
}

std::string value_text(const quantity& of, const std::optional<double>& value) {
  if (!value) return "–";
  switch (of.in) {
    case quantity::unit::seconds:
      return seconds_text(*value);
    case quantity::unit::share:
      return percent_text(*value);
    case quantity::unit::bytes:
      return bytes_text(*value);
    case quantity::unit::number:
      break;
  }
  return number_text(*value);
}

std::string readable(std::string name) {
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

std::string signed_text(double value, const char* format) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

/// Pads text to `width` characters. The dash is one character, but has three bytes.
std::string padded(const std::string& text, std::size_t width) {
  const auto shown = text.size() - 2 * static_cast<std::size_t>(text == "–");
  return shown < width ? std::string(width - shown, ' ') + text : text;
}

/// Returns a time multiplied by a ratio, but at most four months, because the files may contain any numbers.
microseconds scaled(microseconds time, double ratio) {
  const auto product = static_cast<double>(time.count()) * ratio;
  return microseconds{product < 1 ? 1 : product < 1e13 ? std::llround(product) : 10'000'000'000'000};
}

}  // namespace

run_figures read_figures(const fs::path& folder) {
  for (const auto* name : {"metrics.jsonl", "workers.csv"})
    if (!exists(folder / name))
      throw input_error(folder.string() + ": there is no " + name + "; expected the results folder of a finished run");
  run_figures figures;
  if (!read_metrics(folder / "metrics.jsonl", figures))
    throw input_error(folder.string() +
                      ": the run has not made all its steps in one go, so that its times cannot be compared; expected "
                      "the results folder of a run that ended with the status \"done\" and was not continued");
  const auto workers = folder / "workers.csv", links = folder / "links.csv";
  for (const auto& worker : results::workers_in(read_text(workers), workers.string())) {
    figures.workers += 1;
    figures.steps += static_cast<double>(worker.steps);
    figures.busy += worker.busy;
    figures.data_wait += worker.data_wait;
    figures.exchange_wait += worker.exchange_wait;
  }
  if (figures.steps == 0) throw input_error(workers.string() + ": expected the steps and times of each worker");
  if (exists(links))
    for (const auto& link : results::links_in(read_text(links), links.string()))
      figures.busiest_share = std::max(figures.busiest_share.value_or(0), link.busy_share);
  return figures;
}

void check_same_run(const topology::topology& file, const fs::path& folder) {
  const auto path = folder / "topology.toml";
  if (!exists(path))
    throw input_error(folder.string() + ": there is no topology.toml; expected the results folder of a finished run");
  const auto file_values = topology::values_of(topology::canonical(file)),
             run_values = topology::values_of(topology::canonical(topology::load(path)));
  const auto shown = [](const auto& values, const std::string& key) {
    const auto found = values.find(key);
    return found == values.end() ? std::string("unset") : text::printable(found->second);
  };
  std::set<std::string> keys;
  for (const auto* values : {&file_values, &run_values})
    for (const auto& [key, value] : *values) keys.insert(key);
  std::vector<std::string> different;
  for (const auto& key : keys) {
    const auto may_differ =
        std::any_of(placement.begin(), placement.end(), [&](const char* section) { return key.starts_with(section); });
    const auto in_run = shown(run_values, key), in_file = shown(file_values, key);
    if (!may_differ && in_run != in_file)
      different.push_back(key + " is " + in_run + " there and " + in_file + " here");
  }
  if (different.empty()) return;
  constexpr std::size_t most_listed = 5;
  const auto more = different.size() - std::min(different.size(), most_listed);
  different.resize(different.size() - more);
  throw input_error(folder.string() + ": the run had another topology: " + text::joined(different, "; ") +
                    (more > 0 ? "; and " + std::to_string(more) + " more" : "") +
                    "; only [simulate], [[link]] and the placement of workers may differ");
}

std::optional<double> quantity::difference() const {
  if (!real || !predicted || *real == 0) return std::nullopt;
  return *predicted / *real - 1;
}

std::vector<quantity> quantities_of(const run_figures& real, const run_figures& predicted) {
  using unit = quantity::unit;
  std::vector<quantity> quantities;
  const auto add = [&](const char* name, unit in,
                       const std::function<std::optional<double>(const run_figures&)>& value_of) {
    quantities.push_back({.name = name, .in = in, .real = value_of(real), .predicted = value_of(predicted)});
  };
  const auto share = [](const run_figures& run, double seconds) {
    return seconds / static_cast<double>(run.workers) / run.train_seconds;
  };
  add("train_seconds", unit::seconds, [](const auto& run) { return run.train_seconds; });
  add("epoch_seconds", unit::seconds, [](const auto& run) { return run.epoch_seconds; });
  add("samples_per_second", unit::number, [](const auto& run) { return run.samples_per_second; });
  add("idle_share", unit::share, [&](const auto& run) { return 1 - share(run, run.busy); });
  add("exchange_wait_share", unit::share, [&](const auto& run) { return share(run, run.exchange_wait); });
  add("data_wait_share", unit::share, [&](const auto& run) { return share(run, run.data_wait); });
  add("busiest_link_share", unit::share, [](const auto& run) { return run.busiest_share; });
  add("staleness_mean", unit::number, [](const auto& run) { return run.staleness_mean; });
  add("bytes_sent", unit::bytes, [](const auto& run) { return std::optional{run.bytes_sent}; });
  std::erase_if(quantities, [](const quantity& entry) { return !entry.real && !entry.predicted; });
  return quantities;
}

attribution explain(const run_figures& real, const run_figures& predicted, microseconds gradient,
                    const simulate_timing& simulate) {
  microseconds fitting{gradient};
  // Searches for the gradient time with which a step computes for `seconds_per_step`, and returns the training time
  // with that gradient time. The computing time of a step is not quite proportional to the gradient time, because it
  // includes other work and waiting for cores.
  const auto fit = [&](double seconds_per_step) {
    constexpr int tries = 3;
    constexpr double close_enough = 0.005;
    auto simulated = predicted;
    for (int i = 0; i < tries; ++i) {
      const auto ratio = seconds_per_step / simulated.computing_per_step();
      if (std::abs(ratio - 1) < close_enough && i > 0) break;
      fitting = scaled(fitting, ratio);
      simulated = simulate(fitting);
    }
    return simulated.train_seconds;
  };
  attribution result{.whole = real.train_seconds - predicted.train_seconds};
  if (predicted.computing_per_step() <= 0) {
    result.gradient = gradient;
    result.rest = result.whole;
    return result;
  }
  const auto as_long = fit(real.computing_per_step());
  result.gradient = fitting;
  result.of_gradient = as_long - predicted.train_seconds;
  constexpr double worth_a_simulation = 0.001;
  if (real.data_wait > worth_a_simulation * real.busy) {
    fitting = gradient;
    result.of_data = fit(real.computing_per_step() + real.waiting_per_step()) - as_long;
  }
  result.rest = result.whole - result.of_gradient - result.of_data;
  return result;
}

namespace {

std::string of_whole(double seconds, double whole) {
  if (std::abs(whole) < 1e-9) return "";
  return ", " + signed_text(100 * seconds / whole, "%.0f %% of it");
}

/// Returns one sentence about the cause that explains most.
std::string verdict(const attribution& why, microseconds gradient) {
  if (std::abs(why.whole) < 1e-9) return "the simulation took as long as the run";
  const auto data = std::abs(why.of_data), of_gradient = std::abs(why.of_gradient), rest = std::abs(why.rest);
  if (of_gradient >= data && of_gradient >= rest)
    return "most of it is the time of a gradient: set simulate.gradient = \"" + topology::print_delay(why.gradient) +
           "\" (it was \"" + topology::print_delay(gradient) + "\")";
  if (data >= rest) return "most of it is waiting for samples, which is not modelled";
  return why.rest > 0
             ? "most of it is time in which workers neither compute nor wait for samples, and that is not modelled: "
               "handling of messages, other processes on the machine, or a network that is slower than [[link]] "
               "says"
             : "most of it is waiting: workers wait longer in the simulation than they did in the run, because the "
               "network "
               "is faster than [[link]] states, or there are more cores than simulate.cores";
}

}  // namespace

std::string text_of(const fs::path& folder, const std::vector<quantity>& all, const attribution& why,
                    microseconds gradient) {
  constexpr std::size_t of_name = 22, of_value = 14;
  const auto name = [&](std::string text) { return text + std::string(of_name - std::min(of_name, text.size()), ' '); };
  auto text = name("against " + folder.filename().string()) + padded("real", of_value) + padded("predicted", of_value) +
              padded("difference", of_value) + "\n";
  for (const auto& entry : all) {
    const auto difference = entry.difference();
    text += name(readable(entry.name)) + padded(value_text(entry, entry.real), of_value) +
            padded(value_text(entry, entry.predicted), of_value) +
            padded(difference ? signed_text(100 * *difference, "%+.1f %%") : "–", of_value) + "\n";
  }
  const auto seconds = [](double value) { return signed_text(value, "%+.3g s"); };
  text += "the training took " + seconds(why.whole) + " compared with the prediction:\n";
  text += "  " + seconds(why.of_gradient) + of_whole(why.of_gradient, why.whole) + ": computing, with gradients of " +
          topology::print_delay(why.gradient) + "\n";
  text += "  " + seconds(why.of_data) + of_whole(why.of_data, why.whole) + ": waiting for samples\n";
  text += "  " + seconds(why.rest) + of_whole(why.rest, why.whole) + ": everything else\n";
  return text + verdict(why, gradient) + "\n";
}

std::string json_of(const fs::path& folder, const std::vector<quantity>& all, const attribution& why,
                    microseconds gradient) {
  json quantities = json::object();
  const auto value = [](const std::optional<double>& number) { return number ? json(*number) : json(nullptr); };
  for (const auto& entry : all)
    quantities[entry.name] = {
        {"real", value(entry.real)}, {"predicted", value(entry.predicted)}, {"difference", value(entry.difference())}};
  const auto delay = [](microseconds duration) { return std::chrono::duration<double>(duration).count(); };
  const json text{
      {"event", "against"},
      {"folder", folder.string()},
      {"quantities", quantities},
      {"seconds",
       {{"whole", why.whole}, {"gradient", why.of_gradient}, {"data_wait", why.of_data}, {"rest", why.rest}}},
      {"gradient_seconds", {{"predicted", delay(gradient)}, {"fitting", delay(why.gradient)}}},
      {"verdict", verdict(why, gradient)}};
  return files::json_text(text);
}

}  // namespace troupe::comparing
