// A topology file after parsing: plain structs, every default filled in, nothing derived. schema.cpp holds the table
// of its keys; what the words mean is in docs/topology.md, generated from that table.
#pragma once

#include "troupe/actors/support/setting.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace troupe::topology {

/// `every = 4`, "4 steps", "1 epoch": when the number of completed steps is divisible by it, but not at 0; for
/// exchanges see exchange_nature::due_from_start.
struct interval {
  std::uint64_t count{1};
  bool in_epochs{false};
  bool operator==(const interval&) const = default;
};

struct run_settings {
  std::uint64_t seed{0};
  std::optional<std::uint64_t> epochs, steps;  ///< Exactly one is set after validation.
  std::int64_t threads{1};                     ///< Intra-op threads of each compute actor.
  std::chrono::milliseconds timeout{60'000};
  std::chrono::milliseconds join_timeout{300'000};  ///< How long nodes wait for each other before the run begins.
  std::optional<std::chrono::milliseconds> max_seconds;
  bool stop_on_non_finite{true};
  bool operator==(const run_settings&) const = default;
};

struct model_settings {
  std::string name{"convnet"};
  std::filesystem::path script;                      ///< Absolute, or empty; with it the name is "script".
  std::filesystem::path init;                        ///< Absolute. Empty: PyTorch's initialisers under the seed.
  std::string loss{"auto"};                          ///< auto, or models::name_of().
  std::optional<std::int64_t> rank;                  ///< Of matrix_completion; none: models::network_shape's.
  std::optional<std::int64_t> layers, width, heads;  ///< See models::network_shape; set where the model goes by them.
  std::optional<double> dropout;                     ///< Likewise.
  std::optional<std::string> shortcut;               ///< pad, projection; set where the model reads it.
  std::string initializer{"default"};                ///< default, normal.
  double initializer_std{0.01};                      ///< Standard deviation of initializer "normal".
  std::string initializer_bias{"default"};           ///< default, zero: of initializer "normal".
  bool sync_batch_norm{false};
  bool operator==(const model_settings&) const = default;
};

struct data_settings {
  std::string name{"digits"};
  std::filesystem::path dir;              ///< Absolute, or empty: see data::data_folder.
  std::filesystem::path file, test_file;  ///< Absolute, or empty; of sets that are read from the user's files.
  /// See data::data_source; set where the data set goes by them.
  std::optional<bool> mapped;
  std::optional<std::int64_t> rows, columns, nonzeros;
  std::optional<double> skew;
  std::optional<std::int64_t> sequence_length, image_size;
  std::optional<bool> random_windows;
  std::int64_t batch_size{32};  ///< Per worker; where global_batch_size is set, its share of that.
  std::optional<std::int64_t> global_batch_size;
  std::optional<std::int64_t> micro_batch_size;  ///< Divides batch_size; none: the same.
  bool shuffle{true};
  bool drop_last{true};           ///< Leave out the last batch of an epoch where it is not full.
  std::string remainder{"drop"};  ///< drop, pad: samples that do not divide evenly among the workers.
  std::string split{"strided"};
  std::optional<double> alpha;          ///< Set where the split is "dirichlet".
  std::optional<double> validation;     ///< Share of the training set that is held out; none: the test set is used.
  std::optional<std::int64_t> threads;  ///< That make batches ahead, in each process; none: as it sees fit.
  bool normalize{true};
  std::vector<double> mean, std;  ///< Empty: as published.
  bool operator==(const data_settings&) const = default;
};

struct optimizer_settings {
  std::string name{"sgd"};
  double lr{0.01}, momentum{0}, weight_decay{0};
  double l2_penalty{0};               ///< Added to the gradient before any exchange.
  std::vector<std::string> no_decay;  ///< Patterns of the names of parameters without weight decay.
  std::int64_t decay_min_dims{0};     ///< Parameters of fewer dimensions have no weight decay.
  bool nesterov{false};
  std::vector<double> betas;  ///< Two, or empty: the optimizer's own.
  std::optional<double> eps;
  bool grad_averaging{false};        ///< novograd.
  std::string moment_start{"zero"};  ///< zero, gradient; novograd.
  std::optional<double> clip_norm;
  std::string scale_lr{"none"};                 ///< linear, sqrt: with effective batch / base_batch_size.
  std::optional<std::int64_t> base_batch_size;  ///< None: one worker's batch.
  double warmup_epochs{0}, warmup_start{0};
  std::string schedule{"constant"};  ///< step, cosine, polynomial.
  std::string schedule_by{"step"};   ///< step, epoch: how often warm-up and schedule change the rate.
  double min_lr{0};                  ///< The schedule ends here, not at 0.
  double decay_power{1};             ///< Exponent of schedule "polynomial".
  std::vector<double> decay_epochs;  ///< Of step.
  double decay_factor{0.1};          ///< Likewise.
  bool operator==(const optimizer_settings&) const = default;
};

/// See data::augmentation, into which they go.
struct augment_settings {
  std::string preset{"none"};
  std::optional<std::int64_t> crop_padding;
  std::optional<double> flip, rotation, shear, brightness, contrast, saturation, hue;
  std::vector<double> scale;  ///< Least and most, or empty.
  bool operator==(const augment_settings&) const = default;
};

struct worker_settings {
  std::int64_t count{1};
  std::vector<std::string> loop;            ///< gradient, apply, exchange or the name of one.
  std::vector<std::string> device{"auto"};  ///< One for all, or dealt to the workers of each node in turn.
  std::string precision{"float32"};         ///< bfloat16: forward passes under autocast.
  bool operator==(const worker_settings&) const = default;
};

struct exchange_settings {
  std::string name{"exchange"};
  std::string kind;
  std::string sends;                   ///< gradient, parameters.
  std::vector<std::string> members{};  ///< w0, w1 … or names of other exchanges, for groups; empty: all workers.
  interval every{1, false};
  setting_values options;  ///< What only this kind knows, defaults filled in.
  bool operator==(const exchange_settings&) const = default;
};

struct evaluate_settings {
  interval every{1, true};
  std::int64_t batch_size{1000};
  std::optional<double> target_accuracy;
  std::uint64_t target_hold{2};
  std::optional<std::uint64_t> patience;
  std::optional<std::int64_t> top_k;
  bool drop_last{false};        ///< Leave out the last batch where it is not full.
  std::string split{"whole"};   ///< whole, workers: the mean of what each worker's share gives.
  std::string buffers{"mean"};  ///< mean, first: whose float buffers the result has.
  bool pause_training{false};   ///< Workers wait until an evaluation is done.
  bool operator==(const evaluate_settings&) const = default;
};

/// A process that runs some of the workers. Rank order: nodes as in the file, then index.
struct node_settings {
  std::string name{};
  std::string address{"127.0.0.1:0"};  ///< host:port that other nodes dial: control there, tensors on the next port.
                                       ///< Port 0: two free ones, chosen by `troupe run`.
  std::string listen{};                ///< host:port that is bound; empty: the same as address.
  std::int64_t workers{1};
  bool operator==(const node_settings&) const = default;
};

struct topology {
  std::filesystem::path file;  ///< What was read; its stem names the run.
  run_settings run;
  model_settings model;
  data_settings data;
  augment_settings augment;
  optimizer_settings optimizer;
  worker_settings workers;
  std::vector<exchange_settings> exchanges;
  evaluate_settings evaluate;
  std::vector<node_settings> nodes;  ///< Empty: one process.
  bool operator==(const topology&) const = default;
};

}  // namespace troupe::topology
