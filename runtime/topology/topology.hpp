// A topology file after parsing: plain structs with every default filled in and nothing derived. schema_run.cpp,
// schema_training.cpp and schema_emulation.cpp hold the table of its keys; docs/topology.md, which is generated from
// that table, explains their meaning.
#pragma once

#include "troupe/files/setting.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace troupe::topology {

/// An interval in steps or epochs, such as 4, "4 steps" or "1 epoch". It is due when the number of completed steps is
/// divisible by it, but not at step 0; for the exception see exchange_nature::due_from_start.
struct interval {
  std::uint64_t count{1};
  bool in_epochs{false};
  bool operator==(const interval&) const = default;
};

/// A rate such as "100Mbit/s", as it is written and in bytes per second.
struct byte_rate {
  std::string text;
  double bytes_per_second{0};
  bool operator==(const byte_rate& other) const { return bytes_per_second == other.bytes_per_second; }
};

struct run_settings {
  std::uint64_t seed{0};
  std::optional<std::uint64_t> epochs, steps;  ///< Exactly one is set after validation.
  std::string budget{"worker"};                ///< "worker" or "total": whose steps epochs and steps count.
  std::int64_t threads{1};                     ///< Number of intra-op threads of each compute actor.
  std::chrono::milliseconds timeout{60'000};
  std::chrono::milliseconds silence{5'000};         ///< How long a connected node may be silent before it is lost.
  std::chrono::milliseconds join_timeout{300'000};  ///< How long nodes wait for each other before the run begins.
  std::optional<std::chrono::milliseconds> max_seconds;
  std::int64_t verify_every{100};
  bool stop_on_non_finite{true};
  bool operator==(const run_settings&) const = default;
};

struct model_settings {
  std::string name{"convnet"};
  std::filesystem::path exported;    ///< Absolute path, or empty. If set, the name is "exported".
  std::filesystem::path script;      ///< Absolute path, or empty. If set, the name is "script".
  std::filesystem::path init;        ///< Absolute path. If empty, PyTorch's initializers draw from the seed.
  std::string loss{"auto"};          ///< "auto" or the name of a loss.
  std::optional<std::int64_t> rank;  ///< Used by matrix_completion. If unset, the default of models::network_shape.
  /// See models::network_shape. Each is unset if the model does not read it.
  std::optional<std::int64_t> layers, width, heads;
  std::optional<double> dropout;
  std::optional<std::string> shortcut;      ///< "pad" or "projection". Unset if the model does not read it.
  std::string initializer{"default"};       ///< "default" or "normal".
  double initializer_std{0.01};             ///< Standard deviation for initializer "normal".
  std::string initializer_bias{"default"};  ///< "default" or "zero"; used for initializer "normal".
  bool sync_batch_norm{false};
  setting_values options{};  ///< Settings of the kinds of this model and of this loss, with defaults filled in.
  bool operator==(const model_settings&) const = default;

  /// Returns the file that the model is read from; empty for a built-in model.
  const std::filesystem::path& file() const { return exported.empty() ? script : exported; }
};

struct data_settings {
  std::string name{"digits"};
  std::filesystem::path dir;              ///< Absolute path, or empty; see data::data_folder().
  std::filesystem::path file, test_file;  ///< Absolute paths, or empty; used by data sets that read the user's files.
  /// The following are explained at data::data_source. Unset if the data set does not read them.
  std::optional<bool> mapped;
  std::optional<std::int64_t> rows, columns, nonzeros;
  std::optional<double> skew;
  std::optional<std::int64_t> sequence_length, image_size;
  std::optional<bool> random_windows;
  std::vector<std::string> inputs;  ///< Names or numbers of columns of a table; so are the next two.
  std::string label, target;
  std::optional<bool> header;
  std::int64_t batch_size{32};            ///< Per worker; if global_batch_size is set, a worker's share of it.
  std::vector<std::int64_t> batch_sizes;  ///< One for each worker, of which batch_size is the largest, or empty.
  std::optional<std::int64_t> global_batch_size;
  std::optional<std::int64_t> micro_batch_size;  ///< Divides batch_size. If unset, the same as batch_size.
  bool shuffle{true};
  bool drop_last{true};           ///< Whether to drop the last batch of an epoch if it is not full.
  std::string remainder{"drop"};  ///< "drop" or "pad": what happens to samples that do not divide evenly among workers.
  std::string split{"strided"};
  std::optional<double> alpha;       ///< Set if the split is "dirichlet".
  std::optional<double> validation;  ///< Fraction of the training set that is held out. If unset, the test set is used.
  std::optional<std::int64_t> threads;  ///< Threads per process that make batches ahead. If unset, the process decides.
  bool normalize{true};
  std::vector<double> mean, std;  ///< If empty, the published values.
  setting_values options{};       ///< Settings of this kind of data set, with defaults filled in.
  bool operator==(const data_settings&) const = default;
};

struct optimizer_settings {
  std::string name{"sgd"};
  double lr{0.01}, momentum{0}, weight_decay{0};
  double l2_penalty{0};               ///< Factor of the weights added to the gradient before any exchange.
  std::vector<std::string> no_decay;  ///< Name patterns of parameters without weight decay.
  std::int64_t decay_min_dims{0};     ///< Parameters with fewer dimensions have no weight decay.
  bool nesterov{false};
  std::vector<double> betas;  ///< Two numbers; if empty, the optimizer's defaults.
  std::optional<double> eps;
  bool grad_averaging{false};        ///< Used only by novograd.
  std::string moment_start{"zero"};  ///< "zero" or "gradient"; used only by novograd.
  std::optional<double> clip_norm;
  std::string scale_lr{"none"};                 ///< "none", "linear" or "sqrt" in effective batch / base_batch_size.
  std::optional<std::int64_t> base_batch_size;  ///< If unset, one worker's batch size.
  double warmup_epochs{0}, warmup_start{0};
  std::string schedule{"constant"};  ///< "constant", "step", "cosine" or "polynomial".
  std::string schedule_by{"step"};   ///< "step" or "epoch": how often warm-up and schedule change the learning rate.
  double min_lr{0};                  ///< Learning rate at the end of "cosine" and "polynomial".
  double decay_power{1};             ///< Exponent of the "polynomial" schedule.
  std::vector<double> decay_epochs;  ///< Milestones of the "step" schedule.
  double decay_factor{0.1};          ///< Factor of the learning rate at each milestone of the "step" schedule.
  setting_values options{};          ///< Settings of this kind of optimizer, with defaults filled in.
  bool operator==(const optimizer_settings&) const = default;
};

/// Settings from which data::augmentation is made. They are explained there.
struct augment_settings {
  std::string preset{"none"};
  std::optional<std::int64_t> crop_padding;
  std::optional<double> flip, rotation, shear, brightness, contrast, saturation, hue;
  std::vector<double> scale;  ///< Smallest and largest factor, or empty.
  bool operator==(const augment_settings&) const = default;
};

struct worker_settings {
  std::int64_t count{1};
  std::vector<std::string> loop;            ///< "gradient", "apply" and names of exchanges.
  std::vector<std::string> device{"auto"};  ///< One for all workers, or a list that is dealt out on each node.
  std::string precision{"float32"};         ///< "float32" or "bfloat16" (passes under autocast).
  std::vector<double> slowdown{};           ///< Factors on the time of computing, one per worker, or one for all.
  bool operator==(const worker_settings&) const = default;
};

struct exchange_settings {
  std::string name{"exchange"};
  std::string kind;
  std::string sends{};                 ///< "gradient" or "parameters".
  std::vector<std::string> members{};  ///< w0, w1, …, or names of exchanges for groups; if empty, all workers.
  interval every{1, false};
  std::optional<interval> from{};      ///< Steps before the first in which it can take place.
  std::optional<interval> until{};     ///< Last step in which it can take place.
  std::optional<double> growth{};      ///< Growth of the interval as the learning rate falls (QSR).
  std::string encoding{"float32"};     ///< Name of a codec.
  std::optional<double> ratio{};       ///< Share of the parameters that is sent; required by "top_k" and "random_k".
  std::optional<std::int64_t> rank{};  ///< Rank of the approximations; required by "powersgd".
  std::optional<bool> feedback{};      ///< If unset, the encoding's default.
  std::optional<interval> encode_after{};   ///< Steps before the first that is encoded.
  std::optional<interval> ratio_warm_up{};  ///< Steps in which the ratio falls to its value.
  double momentum_correction{0};            ///< Factor of the momentum of what has not been sent; 0 for none.
  setting_values options{};                 ///< Settings of this kind, with defaults filled in.
  bool operator==(const exchange_settings&) const = default;
};

struct evaluate_settings {
  interval every{1, true};
  std::int64_t batch_size{1000};
  std::optional<double> target_accuracy;
  std::uint64_t target_hold{2};
  std::optional<std::uint64_t> patience;
  std::optional<std::int64_t> top_k;
  bool drop_last{false};        ///< Whether to drop the last batch if it is not full.
  std::string split{"whole"};   ///< "whole", or "workers" for the mean over the workers' shares.
  std::string buffers{"mean"};  ///< "mean" or "first": which float buffers the result has.
  bool each_worker{false};      ///< Whether each worker's own parameters are evaluated, too.
  bool pause_training{false};   ///< Whether workers wait until an evaluation is done.
  bool operator==(const evaluate_settings&) const = default;
};

struct checkpoint_settings {
  std::optional<interval> every;  ///< Interval between checkpoints. If unset, none are written.
  std::int64_t keep{2};           ///< Number of checkpoints that are kept: the newest ones.
  std::int64_t copies{1};         ///< Number of nodes that keep each checkpoint.
  bool operator==(const checkpoint_settings&) const = default;
};

/// A process that runs some of the workers. Ranks follow the order of the nodes in the file, then the index.
struct node_settings {
  std::string name{};
  /// host:port that other nodes connect to. For port 0, `troupe run` chooses a free port.
  std::string address{"127.0.0.1:0"};
  std::string listen{};  ///< host:port to listen on; if empty, the same as address.
  std::int64_t workers{1};
  bool operator==(const node_settings&) const = default;
};

/// An emulated link; see emulation/network.hpp. Unset keys keep the values of the links before it.
struct link_settings {
  std::optional<std::string> at;     ///< "*", or the name of a worker ("w2"), a server ("s0") or a node.
  std::vector<std::string> between;  ///< Names of two workers, servers or nodes, or empty.
  std::optional<byte_rate> bandwidth;
  std::optional<std::chrono::microseconds> latency, jitter;
  std::optional<double> loss;  ///< Probability for each 1,500 bytes.
  bool real{false};            ///< Whether the link exists, so that it is not emulated.
  bool operator==(const link_settings&) const = default;
};

/// A fault of a simulated run; see plan/faults.hpp.
struct fault_settings {
  std::string kind{};                                           ///< "kill", "freeze", "partition" or "slow".
  std::string at{};                                             ///< "step 100", or a delay since training began.
  std::string node{};                                           ///< Name of a node, or empty.
  std::vector<std::string> between{};                           ///< Names of two nodes, or empty.
  std::optional<std::chrono::microseconds> lasts{}, latency{};  ///< If `lasts` is unset, to the end of the run.
  bool operator==(const fault_settings&) const = default;
};

/// Durations in a simulation; see emulation/costs.hpp.
struct simulate_settings {
  std::string gradient{"measure"};  ///< "measure", or a delay.
  double jitter{0.1};
  byte_rate memory{"8GB/s", 8e9};
  std::int64_t cores{0};
  std::chrono::microseconds evaluate{0};
  bool operator==(const simulate_settings&) const = default;
};

/// How nodes identify themselves to each other. Files of the same run may differ between hosts.
struct security_settings {
  std::filesystem::path certificates;                 ///< Folder of `troupe certs`; absolute path, or empty.
  std::filesystem::path authority, certificate, key;  ///< Absolute paths. If empty, the files in `certificates`.
  bool insecure{false};                               ///< Whether nodes trust every machine in the network.
  bool operator==(const security_settings&) const = default;
};

/// How nodes reach each other. Must be equal on all nodes.
struct transport_settings {
  std::string control{"auto"};  ///< What carries control messages: "caf", "frames" or "auto".
  bool operator==(const transport_settings&) const = default;
};

/// Other programs that may attach to the run; see `troupe run --actors`.
struct actors_settings {
  std::vector<std::string> allow;  ///< Names of guests, as in their certificates.
  bool operator==(const actors_settings&) const = default;
};

/// The keys that the file or the command line sets, such as "run.seed", "exchange.ring.kind" or "node.alpha.address",
/// and where, such as "FILE:3:1" or "--set #1". They do not change what a topology means, so they do not count when two
/// are compared.
struct given_keys {
  std::map<std::string, std::string> places;
  bool has(const std::string& key) const { return places.contains(key); }
  /// Returns the place of a key, or that of its section, or "".
  std::string place_of(const std::string& key) const;
  bool operator==(const given_keys&) const { return true; }
};

struct topology {
  std::filesystem::path file;        ///< The file that was read; its stem names the run.
  std::vector<std::string> plugins;  ///< Absolute paths of the shared libraries that were loaded for this file.
  run_settings run;
  model_settings model;
  data_settings data;
  augment_settings augment;
  optimizer_settings optimizer;
  worker_settings workers;
  std::vector<exchange_settings> exchanges;
  evaluate_settings evaluate;
  checkpoint_settings checkpoint;
  std::vector<node_settings> nodes;  ///< Empty if there is one process.
  transport_settings transport;
  security_settings security;
  actors_settings actors;
  std::vector<link_settings> links;
  std::vector<fault_settings> faults;
  simulate_settings simulate;
  given_keys given{};
  bool operator==(const topology&) const = default;
};

}  // namespace troupe::topology
