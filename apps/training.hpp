// What `troupe run` and `troupe node` share: the options, and a node that trains.
#pragma once

#include "troupe/runtime/node/signals.hpp"
#include "troupe/runtime/plan/plan.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace troupe::apps {

struct training_options {
  std::filesystem::path file;
  std::filesystem::path out;
  std::vector<std::string> overrides;
  std::string csv, epoch_log;  ///< Patterns of telemetry::pattern_option; empty: none.
  bool overwrite{false}, quiet{false}, json{false};
  bool together{false};  ///< All nodes were started just now: one that does not join within run.timeout has failed.
};

/// Adds FILE and the options to `command`. `given` outlives it.
void add_training_options(CLI::App& command, training_options& given);

/// A topology that can be run: file, data and plan.
struct training {
  data::dataset_pair data;
  troupe::plan plan;
};

/// Throws input_error.
training prepare(const training_options& given);

/// Runs one node of the plan and returns the exit status.
int train(const training_options& given, training&& what, std::uint32_t node, signal_watch& signals);

}  // namespace troupe::apps
