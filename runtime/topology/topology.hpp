// A topology file after parsing: plain structs, every default filled in, nothing derived. schema.cpp holds the table
// of its keys; what the words mean is in docs/topology.md, generated from that table.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "troupe/actors/support/setting.hpp"

namespace troupe::topology {

/// `every = 4`, "4 steps", "1 epoch": when the completed steps divide by it, never at 0.
struct interval {
  std::uint64_t count{1};
  bool in_epochs{false};
  /// In steps.
  std::uint64_t steps(std::uint64_t steps_per_epoch) const { return in_epochs ? count * steps_per_epoch : count; }
};

struct run_settings {
  std::uint64_t seed{0};
  std::optional<std::uint64_t> epochs, steps;  ///< Exactly one is set after validation.
  std::int64_t threads{1};                     ///< Intra-op threads of each compute actor.
  std::chrono::milliseconds timeout{60'000};
  std::optional<std::chrono::milliseconds> max_seconds;
};

struct model_settings {
  std::string name{"convnet"};
  std::filesystem::path init;  ///< Empty: PyTorch's initialisers under the seed.
  std::string loss{"auto"};    ///< auto, cross_entropy, nll.
};

struct data_settings {
  std::string name{"digits"};
  std::filesystem::path dir;
  std::int64_t batch_size{32};                  ///< Per worker.
  std::optional<std::int64_t> global_batch_size;
  bool shuffle{true};
  std::string split{"strided"};
  bool normalize{true};
  std::vector<double> mean, std;                ///< Empty: as published.
};

struct optimizer_settings {
  std::string name{"sgd"};
  double lr{0.01}, momentum{0}, weight_decay{0};
  bool nesterov{false};
};

struct worker_settings {
  std::int64_t count{1};
  std::vector<std::string> loop;  ///< gradient, apply, exchange or the name of one.
  std::string device{"auto"};
};

struct exchange_settings {
  std::string name{"exchange"};
  std::string kind;
  std::string sends;         ///< gradient, parameters.
  setting_values options;    ///< What only this kind knows, defaults filled in.
};

struct evaluate_settings {
  interval every{1, true};
  std::int64_t batch_size{1000};
  std::optional<double> target_accuracy;
  std::uint64_t target_hold{2};
  std::optional<std::uint64_t> patience;
};

struct topology {
  std::filesystem::path file;  ///< What was read; its stem names the run.
  run_settings run;
  model_settings model;
  data_settings data;
  optimizer_settings optimizer;
  worker_settings workers;
  std::vector<exchange_settings> exchanges;
  evaluate_settings evaluate;
};

}  // namespace troupe::topology
