#include "troupe/tools/diagnosis/suggestions.hpp"

#include "troupe/files/text.hpp"
#include "troupe/runtime/plan/batches.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <variant>

namespace troupe::diagnosis {

namespace {

using topology::exchange_settings;

constexpr double noticeable_gain = 0.05;  ///< Share of the time that a suggestion must save.

/// The input of the rules, and the suggestions that they have made.
struct situation {
  const topology::topology& file;
  unsigned cores;
  std::vector<suggestion> made{};

  bool alone() const { return file.exchanges.size() == 1; }
  /// Returns "exchange.KEY=VALUE", with the name of the exchange if there are several.
  std::string setting(const exchange_settings& of, const std::string& key, const std::string& value) const {
    return (alone() ? "exchange." : "exchange." + of.name + ".") + key + "=" + value;
  }
  void add(std::string why, std::vector<std::string> settings, bool changes_training = true) {
    made.push_back({std::move(why), std::move(settings), changes_training});
  }
};

std::string word(const exchange_settings& of, const std::string& key) {
  const auto option = of.options.find(key);
  const auto* text = option == of.options.end() ? nullptr : std::get_if<std::string>(&option->second);
  return text ? *text : "";
}

std::optional<std::int64_t> number(const exchange_settings& of, const std::string& key) {
  const auto option = of.options.find(key);
  const auto* value = option == of.options.end() ? nullptr : std::get_if<std::int64_t>(&option->second);
  return value ? std::optional(*value) : std::nullopt;
}

std::string times(const topology::interval& every, std::uint64_t factor) {
  return topology::print_interval({.count = factor * every.count, .in_epochs = every.in_epochs});
}

/// Returns the setting of a loop as one word of a shell command.
std::string loop(const std::vector<std::string>& words) {
  return "workers.loop=[" + text::joined(text::in_quotes(words), ", ") + "]";
}

void about_data(situation& now) {
  const auto threads = static_cast<std::int64_t>(
      loader_threads_of(now.file.data, static_cast<std::uint32_t>(now.file.workers.count), now.cores));
  const auto more = std::min<std::int64_t>(std::max<std::int64_t>(2 * threads, 1), std::max(now.cores, 1u));
  if (more > threads)
    now.add("More threads read, decode and augment batches ahead of time.", {"data.threads=" + std::to_string(more)},
            false);
}

void about_evaluation(situation& now) {
  const auto& given = now.file.evaluate;
  const auto decides = given.target_accuracy || given.patience;
  if (given.pause_training && !decides)
    now.add("Workers need not wait for evaluations, which then compete with them for the cores.",
            {"evaluate.pause_training=false"}, false);
  now.add("Half as many evaluations take half the time.", {"evaluate.every=" + times(given.every, 2)}, decides);
}

/// Suggests wirings in which no worker waits for another and the workers share the steps. Backup workers or a bound on
/// staleness would not help: each worker still makes all of its steps, so the run takes as long as its slowest worker.
void stop_waiting(situation& now) {
  if (!now.alone()) return;
  const auto& exchange = now.file.exchanges.front();
  const std::string budget = "run.budget=total";
  const auto apply = word(exchange, "apply");
  if (apply == "all" && exchange.kind == "parameter_server")
    now.add("Servers that apply each gradient as it arrives make no worker wait; the workers then share the steps.",
            {now.setting(exchange, "apply", "each"), budget});
  else if (apply == "all" && exchange.kind == "elastic")
    now.add("A centre that moves whenever one worker arrives makes no worker wait; the workers then share the steps.",
            {now.setting(exchange, "apply", "each"), budget});
  else if (exchange.sends == "gradient" && (exchange.kind == "all_reduce" || exchange.kind == "star"))
    now.add("With asynchronous SGD, no worker waits for another; the workers then share the steps.",
            {"exchange.kind=parameter_server", "exchange.apply=each", loop({"gradient", exchange.name}), budget});
  else if (exchange.kind != "elastic" && exchange.kind != "shared")
    now.add("With asynchronous elastic averaging, no worker waits for another; the workers then share the steps.",
            {"exchange.kind=elastic", "exchange.apply=each", "exchange.sends=parameters",
             loop({"gradient", "apply", exchange.name}), budget});
}

/// Suggests bounds on staleness, for workers that all wait alike because their speeds vary from step to step.
void loosen(situation& now, const exchange_settings& of) {
  if (of.kind != "parameter_server") return;
  if (word(of, "apply") == "all")
    now.add("If speeds vary from step to step, a bound on staleness lets workers run ahead by a few steps.",
            {now.setting(of, "apply", "each"), now.setting(of, "staleness_bound", "4")});
  if (const auto bound = number(of, "staleness_bound"); word(of, "apply") == "each" && bound)
    now.add("If speeds vary from step to step, a larger bound on staleness lets workers run further ahead.",
            {now.setting(of, "staleness_bound", std::to_string(std::max<std::int64_t>(2 * *bound, 4)))});
}

/// Suggests other routes of the same wiring. All but the ring give the same bits, unless messages are encoded.
void take_another_route(situation& now, const exchange_settings& of) {
  const auto taken = word(of, "route");
  if (of.kind != "all_reduce" || taken.empty()) return;
  const auto keeps_bits = of.encoding == "float32" && taken != "ring";
  if (taken != "auto")
    now.add("The route that is predicted to take the least time on these links.", {now.setting(of, "route", "auto")},
            !keeps_bits);
  if (taken != "ring") now.add("A ring sends parts that are all equally large.", {now.setting(of, "route", "ring")});
}

/// Suggests fewer or smaller messages, or messages that are sent while workers compute.
void lighten(situation& now, const exchange_settings& of) {
  const auto gradients = of.sends == "gradient";
  take_another_route(now, of);
  if (of.kind == "star" && now.alone())
    now.add("Without a master, no single worker sends and receives everything.", {"exchange.kind=all_reduce"});
  if (gradients && word(of, "send") == "whole" && of.kind != "star")
    now.add("Buckets leave while the backward pass still computes, so that workers wait for less.",
            {now.setting(of, "send", "bucket")});
  if (gradients && word(of, "send") == "bucket")
    now.add("One message for all buckets has the latency of one.", {now.setting(of, "send", "whole")});
  if (const auto shards = of.kind == "parameter_server" ? number(of, "shards") : std::nullopt)
    now.add("More servers share the parameters, and so the traffic.",
            {now.setting(of, "shards", std::to_string(2 * *shards))});
  if (gradients && of.encoding == "float32" && of.kind != "shared")
    now.add("Gradients in bfloat16 take half the bytes.", {now.setting(of, "encoding", "bf16")});
  if (of.kind == "gossip" && !word(of, "graph").empty())
    for (const auto* graph : {"ring", "exponential"})
      if (word(of, "graph") != graph)
        now.add(graph == std::string("ring") ? "On a ring, each worker has two neighbours only, but models agree later."
                                             : "On an exponential graph, few neighbours suffice for models to agree.",
                {now.setting(of, "graph", graph)});
  if (of.kind == "shared")
    now.add("Workers that add up several steps before they touch the memory disturb each other less often.",
            {now.setting(of, "local_steps",
                         std::to_string(std::max<std::int64_t>(2 * number(of, "local_steps").value_or(1), 4)))});
  else if (!gradients)
    now.add("Half as many exchanges take half the time.", {now.setting(of, "every", times(of.every, 2))});
  else if ((of.kind == "all_reduce" || of.kind == "star") && now.alone()) {
    std::vector<std::string> settings{"exchange.sends=parameters", "exchange.every=8",
                                      loop({"gradient", "apply", of.name})};
    if (of.kind == "star") settings.insert(settings.begin(), "exchange.kind=all_reduce");
    now.add("Averaging parameters in every eighth step (local SGD) sends an eighth of the bytes.", std::move(settings));
  }
}

void about_exchanges(situation& now) {
  for (const auto& exchange : now.file.exchanges) {
    lighten(now, exchange);
    loosen(now, exchange);
  }
  const auto& data = now.file.data;
  const std::string why = "Larger batches need fewer exchanges, or updates of a shared memory, for the same samples.";
  if (data.global_batch_size)
    now.add(why, {"data.global_batch_size=" + std::to_string(2 * *data.global_batch_size)});
  else
    now.add(why, {"data.batch_size=" + std::to_string(2 * data.batch_size)});
}

void about_budget(situation& now) {
  if (now.file.run.budget == "worker")
    now.add("Workers that share the steps all work until the end.", {"run.budget=total"});
}

}  // namespace

std::vector<suggestion> candidates(const topology::topology& file, unsigned cores) {
  situation now{file, cores};
  about_data(now);
  about_evaluation(now);
  stop_waiting(now);
  about_exchanges(now);
  about_budget(now);
  return now.made;
}

std::vector<suggestion> suggestions_of(const what_if& run, double seconds, unsigned cores) {
  std::vector<suggestion> suggestions;
  for (auto& candidate : candidates(run.file(), cores)) {
    const auto predicted = run.seconds_with(candidate.settings);
    if (!predicted || *predicted > (1 - noticeable_gain) * seconds) continue;
    candidate.seconds = *predicted;
    suggestions.push_back(std::move(candidate));
  }
  std::stable_sort(suggestions.begin(), suggestions.end(), [](const suggestion& a, const suggestion& b) {
    return std::pair{a.changes_training, a.seconds} < std::pair{b.changes_training, b.seconds};
  });
  return suggestions;
}

}  // namespace troupe::diagnosis
