// Code shared by `troupe run` and `troupe node`: the options, and training on one node.
#pragma once

#include "troupe/apps/running/actors.hpp"
#include "troupe/apps/running/dashboard.hpp"
#include "troupe/runtime/node/signals.hpp"
#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/telemetry/display.hpp"
#include "troupe/runtime/telemetry/side_outputs.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace troupe::apps {

struct training_options {
  std::filesystem::path file;
  std::filesystem::path out;
  std::filesystem::path resume;  ///< The results folder of the run to continue; empty means a new run.
  std::vector<std::string> overrides;
  std::string csv, epoch_log;  ///< Patterns of telemetry::pattern_option; empty means no such file.
  bool overwrite{false}, quiet{false}, json{false};
  bool tensorboard{false};  ///< Whether the first node writes an event file.
  bool trace{false};        ///< Whether a trace is written.
  /// Folder to which nodes other than the first write their parts of outputs; empty means `out`.
  std::filesystem::path parts;
  dashboard_option dashboard{};
  actors_option actors{};
  bool record{false};  ///< Whether the first node records the deliveries to its actors.
  std::string name;    ///< Name of the node, for `troupe node`.
  /// Whether all nodes were started together: one that does not join within run.timeout has failed.
  bool together{false};
  std::vector<std::string> ports;  ///< Ports that `troupe run` chose for its nodes; see chosen_ports().
};

/// Adds --tensorboard to `command`. `given` must outlive it.
void add_tensorboard_flag(CLI::App& command, training_options& given);

/// Adds FILE and the options to `command`. `given` must outlive it.
void add_training_options(CLI::App& command, training_options& given);

/// A topology ready to run: its data and its plan, which contains the file.
struct training {
  data::dataset_pair data;
  troupe::plan plan;
};

/// Returns how much a run prints.
telemetry::verbosity verbosity_of(const training_options& given);

/// Completes the options of a run that is continued, and checks that they fit together. Throws input_error.
void settle(training_options& given);

/// Returns the files that a run reads besides its topology file and the files of its data set; empty paths are ignored.
std::vector<std::filesystem::path> inputs_of(const plan& plan);

/// Returns the writer of those outputs of a run that may wait.
std::shared_ptr<telemetry::side_outputs> make_outputs();

/// Loads the topology file and its data, and derives the plan. Throws input_error.
training prepare(const training_options& given);

/// Runs one node of the plan and returns the exit status.
int train(const training_options& given, training&& what, std::uint32_t node, signal_watch& signals);

}  // namespace troupe::apps
