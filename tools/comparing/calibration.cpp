#include "troupe/tools/comparing/calibration.hpp"

#include "troupe/files/json.hpp"
#include "troupe/runtime/support/read_text.hpp"
#include "troupe/runtime/telemetry/metrics.hpp"
#include "troupe/runtime/topology/canonical.hpp"
#include "troupe/runtime/topology/error.hpp"
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

/// Keys that begin like this may differ: they place the workers, and say how long things take.
constexpr std::array placement{"link.", "node.", "transport."};

/// Reads the lines of metrics.jsonl. Returns whether the run has finished.
bool read_metrics(const fs::path& path, run_figures& into) {
  bool finished = false;
  std::vector<std::optional<double>> epochs;
  for (const auto& line : telemetry::records_of(read_text(path))) {
    if (line.event == "resume") return false;  // its times are of two machines, or of two loads of one
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

/// Pads a text to so many characters; a dash that is one character has three bytes.
std::string padded(const std::string& text, std::size_t width) {
  const auto shown = text.size() - 2 * static_cast<std::size_t>(text == "–");
  return shown < width ? std::string(width - shown, ' ') + text : text;
}

/// Returns a time multiplied by a ratio, but four months at most: the files may have any numbers.
microseconds scaled(microseconds time, double ratio) {
  const auto product = static_cast<double>(time.count()) * ratio;
  return microseconds{product < 1 ? 1 : product < 1e13 ? std::llround(product) : 10'000'000'000'000};
}

}  // namespace

run_figures read_figures(const fs::path& folder) {
  for (const auto* name : {"metrics.jsonl", "workers.csv"})
    if (!exists(folder / name))
      throw input_error(folder.string() + ": there is no " + name + "; expected the results folder of a finished run");
  run_figures found;
  if (!read_metrics(folder / "metrics.jsonl", found))
    throw input_error(folder.string() +
                      ": the run has not made all its steps in one go, so that its times cannot be compared; expected "
                      "the results folder of a run that ended with the status \"done\" and was not continued");
  const auto workers = folder / "workers.csv", links = folder / "links.csv";
  for (const auto& one : results::workers_in(read_text(workers), workers.string())) {
    found.workers += 1;
    found.steps += static_cast<double>(one.steps);
    found.busy += one.busy;
    found.data_wait += one.data_wait;
    found.exchange_wait += one.exchange_wait;
  }
  if (found.steps == 0) throw input_error(workers.string() + ": expected the steps and times of each worker");
  if (exists(links))
    for (const auto& one : results::links_in(read_text(links), links.string()))
      found.busiest_share = std::max(found.busiest_share.value_or(0), one.busy_share);
  return found;
}

void check_same_run(const topology::topology& file, const fs::path& folder) {
  const auto path = folder / "topology.toml";
  if (!exists(path))
    throw input_error(folder.string() + ": there is no topology.toml; expected the results folder of a finished run");
  const auto here = topology::values_of(topology::canonical(file)),
             there = topology::values_of(topology::canonical(topology::load(path)));
  const auto shown = [](const auto& values, const std::string& key) {
    const auto found = values.find(key);
    return found == values.end() ? std::string("unset") : topology::printable(found->second);
  };
  std::set<std::string> keys;
  for (const auto* values : {&here, &there})
    for (const auto& [key, value] : *values) keys.insert(key);
  std::vector<std::string> different;
  for (const auto& key : keys) {
    const auto may_differ =
        std::any_of(placement.begin(), placement.end(), [&](const char* section) { return key.starts_with(section); });
    const auto before = shown(there, key), now = shown(here, key);
    if (!may_differ && before != now) different.push_back(key + " is " + before + " there and " + now + " here");
  }
  if (different.empty()) return;
  constexpr std::size_t most_listed = 5;
  const auto more = different.size() - std::min(different.size(), most_listed);
  different.resize(different.size() - more);
  throw input_error(folder.string() + ": the run had another topology: " + topology::joined(different, "; ") +
                    (more > 0 ? "; and " + std::to_string(more) + " more" : "") +
                    "; only [simulate], [[link]] and the placement of workers may differ");
}

std::optional<double> quantity::difference() const {
  if (!real || !predicted || *real == 0) return std::nullopt;
  return *predicted / *real - 1;
}

std::vector<quantity> quantities_of(const run_figures& real, const run_figures& predicted) {
  using unit = quantity::unit;
  std::vector<quantity> all;
  const auto add = [&](const char* name, unit in, const std::function<std::optional<double>(const run_figures&)>& of) {
    all.push_back({.name = name, .in = in, .real = of(real), .predicted = of(predicted)});
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
  std::erase_if(all, [](const quantity& one) { return !one.real && !one.predicted; });
  return all;
}

attribution explain(const run_figures& real, const run_figures& predicted, microseconds gradient,
                    const simulate_timing& simulate) {
  microseconds fitting{gradient};
  // Searches the time of a gradient with which a step computes for so long, and returns the training time with it. What
  // a step computes is not quite proportional to that, because it includes other work and waiting for cores.
  const auto fit = [&](double seconds_per_step) {
    constexpr int tries = 3;
    constexpr double close_enough = 0.005;
    auto found = predicted;
    for (int i = 0; i < tries; ++i) {
      const auto ratio = seconds_per_step / found.computing_per_step();
      if (std::abs(ratio - 1) < close_enough && i > 0) break;
      fitting = scaled(fitting, ratio);
      found = simulate(fitting);
    }
    return found.train_seconds;
  };
  attribution made{.whole = real.train_seconds - predicted.train_seconds};
  if (predicted.computing_per_step() <= 0) {
    made.gradient = gradient;
    made.rest = made.whole;
    return made;
  }
  const auto as_long = fit(real.computing_per_step());
  made.gradient = fitting;
  made.of_gradient = as_long - predicted.train_seconds;
  constexpr double worth_a_simulation = 0.001;
  if (real.data_wait > worth_a_simulation * real.busy) {
    fitting = gradient;
    made.of_data = fit(real.computing_per_step() + real.waiting_per_step()) - as_long;
  }
  made.rest = made.whole - made.of_gradient - made.of_data;
  return made;
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
             : "most of it is time for which the simulation lets workers wait, and the run did not: a network that "
               "is faster than [[link]] says, or more cores than simulate.cores";
}

}  // namespace

std::string text_of(const fs::path& folder, const std::vector<quantity>& all, const attribution& why,
                    microseconds gradient) {
  constexpr std::size_t of_name = 22, of_value = 14;
  const auto name = [&](std::string text) { return text + std::string(of_name - std::min(of_name, text.size()), ' '); };
  auto text = name("against " + folder.filename().string()) + padded("real", of_value) + padded("predicted", of_value) +
              padded("difference", of_value) + "\n";
  for (const auto& one : all) {
    const auto difference = one.difference();
    text += name(readable(one.name)) + padded(value_text(one, one.real), of_value) +
            padded(value_text(one, one.predicted), of_value) +
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
  const auto value = [](const std::optional<double>& of) { return of ? json(*of) : json(nullptr); };
  for (const auto& one : all)
    quantities[one.name] = {
        {"real", value(one.real)}, {"predicted", value(one.predicted)}, {"difference", value(one.difference())}};
  const auto delay = [](microseconds of) { return std::chrono::duration<double>(of).count(); };
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
