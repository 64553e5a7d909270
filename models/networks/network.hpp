// A trainable network behind a small interface: only what compute and evaluator need of a model. A network is
// independent of how it is distributed. One thread at a time.
#pragma once

#include "troupe/files/setting.hpp"
#include "troupe/models/losses/loss.hpp"

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace troupe::models {

struct flat_layout;
struct sparse_sample;
struct sparse_sgd_options;

/// Takes the steps of `samples`, in order, in place on `x` [P] laid out as `layout`; the last step may have fewer
/// samples. Reads and writes x with relaxed atomics. Returns options.loss_sum plus the loss of each sample before its
/// step, added step by step: several calls return the same bits as one call for all their steps. A function of its
/// arguments alone if nothing else writes x.
using sparse_sgd = double (*)(std::span<const sparse_sample> samples, const sparse_sgd_options& options,
                              const flat_layout& layout, float* x);

/// Kinds of samples.
enum class sample_kind : std::uint8_t {
  images,      ///< [N, C, H, W], float32: scaled bytes.
  numbers,     ///< [N, …], float32.
  characters,  ///< [N, T], int64: characters of a text, or other tokens.
  sparse,      ///< [N, columns], sparse CSR.
};

/// Initial weights of convolutions and linear layers drawn from N(0, deviation²).
struct normal_initializer {
  double deviation{0.01};   ///< Standard deviation.
  bool zero_biases{false};  ///< Set biases to zero; otherwise they keep the model's own initializer.
};

/// Shape of the input, the number of classes, and the settings of the model.
struct network_shape {
  /// Shape of one sample: [C, H, W] of an image, [T] of a text, [D] of numbers, [columns] of a sparse row, [users,
  /// items] of a rating.
  std::vector<std::int64_t> input{1, 28, 28};
  std::int64_t classes{10};  ///< Number of classes; for text, the number of distinct characters; 0 for regression.
  std::int64_t rank{10};     ///< Length of a factor in matrix_completion.
  // The next four are used only by models that list the key in network_kind::reads; empty for the model's default.
  std::optional<std::int64_t> layers{};  ///< Number of layers or blocks.
  std::optional<std::int64_t> width{};   ///< Width of a layer.
  std::optional<std::int64_t> heads{};   ///< Number of attention heads.
  std::optional<double> dropout{};       ///< Dropout probability, in [0, 1).
  std::filesystem::path file{};          ///< File of the module, for the models `script` and `exported`.
  bool padded_shortcuts{false};  ///< Shortcuts of option A instead of B in `resnet20` (He et al. 2016, section 4.2).
  std::optional<normal_initializer> normal{};  ///< Empty for the model's own initializers.
  setting_values settings{};                   ///< Values of network_kind::settings.
};

/// Statistics of one batch-norm layer over a group of replicas.
struct group_means {
  at::Tensor values;        ///< [2·C], float32, as if one replica had all samples.
  std::int64_t samples{0};  ///< Samples of all members, as counted per channel.
};

/// Combines the statistics of one batch-norm layer (numbered as in norm_channels()) over all replicas. `own` [2·C],
/// float32, are those of one replica over `samples` values per channel: forward, C means and then C biased variances,
/// which are merged; backward, two means per channel, which are averaged. Blocks until all replicas have contributed
/// theirs; throws if one never will. Any thread, one at a time.
using group_mean =
    std::function<group_means(std::size_t layer, bool backward, const at::Tensor& own, std::int64_t samples)>;

/// How many samples a batch may have.
struct batch_range {
  std::int64_t least{0};                                        ///< Smallest number of samples.
  std::int64_t most{std::numeric_limits<std::int64_t>::max()};  ///< Largest number of samples.
};

/// A network in training or evaluation.
class network {
 public:
  /// Tensors with their names, in order.
  using named_tensors = std::vector<std::pair<std::string, at::Tensor>>;

  virtual ~network() = default;

  /// Returns [N, classes] (scores, or log-probabilities if loss() is nll) for `input` [N, C, H, W] or [N, D], float32;
  /// for text, [N, T, classes], scores of the next character, for `input` [N, T], int64; for sparse samples, [N], one
  /// score or number each, for `input` [N, columns], sparse CSR, float32 with int32 indices. A rating is a row with a 1
  /// in its user's column and a 1 in its item's column; item columns follow the user columns.
  virtual at::Tensor forward(const at::Tensor& input) = 0;

  /// Turns dropout and batch-norm statistics on (training) or off.
  virtual void train(bool on) = 0;

  /// Makes every random draw of a forward pass use `generator`.
  virtual void draw_from(at::Generator generator) = 0;

  /// Returns the parameters in order of registration, under their usual PyTorch names; aliases, not copies.
  virtual named_tensors parameters() const = 0;

  /// Returns the buffers in order of registration, under their usual PyTorch names; aliases, not copies.
  virtual named_tensors buffers() const = 0;

  /// Returns whether a buffer is a counter: float32 here, so that flat storage can hold it, and int64 in a state dict.
  virtual bool counts(const std::string& buffer) const { return (void)buffer, false; }

  /// Draws the weights of all convolutions and linear layers again, in order of registration, from the process-wide
  /// generator. Throws std::invalid_argument if the model does not support it.
  virtual void draw_weights(const normal_initializer& how);

  /// Returns the loss that fits the output of forward().
  virtual loss_function loss() const = 0;

  /// Returns whether another loss may be chosen, because the output of forward() is unknown.
  virtual bool takes_any_loss() const { return false; }

  /// Returns the random operators of a training forward pass that do not draw from draw_from()'s generator. If there
  /// are any, a result is not a function of the seed.
  virtual std::vector<std::string> draws_elsewhere() const { return {}; }

  /// Returns how many samples forward() accepts.
  virtual batch_range accepts() const { return {}; }

  /// Returns what a user of the model's file should know, a sentence each.
  virtual std::vector<std::string> notes() const { return {}; }

  /// Returns the number of channels of each batch-norm layer, in forward order; empty if there is none.
  virtual std::vector<std::int64_t> norm_channels() const { return {}; }

  /// Makes batch-norm layers in training normalise with the statistics of a group of replicas, combined by `mean`, like
  /// PyTorch's SyncBatchNorm. If `mean` is null, they use the statistics of their own batch.
  virtual void synchronise(group_mean mean) { (void)mean; }
};

/// A model that a topology file can name.
struct network_kind {
  std::string name{};         ///< Value of model.name.
  std::string explanation{};  ///< One line of help.
  /// Makes a new network, for each replica and for trials, with the model's own initialisers, drawn from the
  /// process-wide generator; make_network() handles network_shape::normal. Throws std::invalid_argument if the model
  /// cannot take inputs of this shape, and setting_error if its settings contradict each other.
  std::function<std::unique_ptr<network>(const network_shape& shape)> make{};
  sparse_sgd step{nullptr};  ///< For sparse samples: plain SGD without a backward pass. Null if the model has none.
  std::vector<std::string> reads{};  ///< Keys of network_shape that the model uses: rank, layers, width …
  std::string takes{};               ///< Samples that the model takes, in words; empty if its file decides.
  /// Returns whether the model takes samples of this kind and shape. Null if its file decides.
  bool (*fits)(sample_kind kind, const network_shape& shape){nullptr};
  std::vector<setting> settings{};  ///< Keys of its own in the section [model]; see network_shape::settings.
};

/// A setting that the model refuses whatever the data.
struct setting_error : std::invalid_argument {
  /// `text` states what is wrong and what was expected.
  setting_error(std::string key, const std::string& text) : std::invalid_argument(text), key(std::move(key)) {}
  std::string key;  ///< Name in the section [model].
};

/// All models, in the order in which `troupe list` shows them.
const std::deque<network_kind>& network_kinds();

/// Adds a model to those that topology files can name. Call it first in a program's main(), or from a plug-in. Throws
/// std::invalid_argument if the name is taken or `make` is empty.
void register_network(network_kind kind);

/// Returns whether network_shape::normal applies to a model: not to models from files or of sparse samples.
bool draws_normal_weights(const network_kind& kind);

/// Returns the model of this name, or nullptr.
const network_kind* find_network(const std::string& name);

/// Makes a network whose initial weights are a function of `seed` only: those of `torch.manual_seed(seed)` followed by
/// constructing the module in Python and, if the shape requires it, drawing its weights again. Callable from any
/// thread.
std::unique_ptr<network> make_network(const network_kind& kind, const network_shape& shape, std::uint64_t seed);

}  // namespace troupe::models
