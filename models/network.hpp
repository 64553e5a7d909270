// A trainable network behind a thin face: what compute and evaluator need of a model, and no more. A network never
// learns how it is distributed. One thread at a time.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace troupe::models {

struct flat_layout;
struct sparse_sample;
struct sparse_sgd_options;

/// Makes the steps of `samples`, in order, in place on `x` [P] laid out as `layout`; the last step may have fewer
/// samples. Reads and writes x by relaxed atomics. Returns the sum over the samples of the loss before their step. A
/// function of its arguments alone where nobody else writes x.
using sparse_sgd = double (*)(std::span<const sparse_sample> samples, const sparse_sgd_options& options,
                              const flat_layout& layout, float* x);

enum class loss_kind : std::uint8_t {
  cross_entropy,
  nll,
  binary_cross_entropy,  ///< Of one score for each sample, class 1 against class 0: log(1 + exp(−y·score)), y = ±1.
  hinge,                 ///< Likewise: max(0, 1 − y·score).
  mse,                   ///< Squared difference of one number for each sample.
};

inline constexpr loss_kind loss_kinds[] = {loss_kind::cross_entropy, loss_kind::nll, loss_kind::binary_cross_entropy,
                                           loss_kind::hinge, loss_kind::mse};

/// Initial weights of convolutions and linear layers drawn from N(0, deviation²).
struct normal_initializer {
  double deviation{0.01};
  bool zero_biases{false};  ///< Else their biases keep the model's own initializer.
};

/// What a network is fed, what it tells apart, and the settings of its model.
struct network_shape {
  /// Of one sample: [C, H, W] of an image, [T] of a text, [D] of numbers, [columns] of a sparse row, [users, items] of
  /// a rating.
  std::vector<std::int64_t> input{1, 28, 28};
  std::int64_t classes{10};  ///< Of a text: characters it knows. 0: samples stand for numbers.
  std::int64_t rank{10};     ///< Of matrix_completion: length of a factor.
  /// Of a model that says so in network_kind::reads; none: that model's own default.
  std::optional<std::int64_t> layers{}, width{}, heads{};
  std::optional<double> dropout{};  ///< Likewise: probability, in [0, 1).
  std::filesystem::path script{};   ///< Of `script`: the TorchScript file.
  bool padded_shortcuts{false};  ///< Of `resnet20`: shortcuts of option A instead of B (He et al. 2016, section 4.2).
  std::optional<normal_initializer> normal{};  ///< None: the model's own initializers.
};

/// Statistics of one batch-norm layer over a group of replicas.
struct group_means {
  at::Tensor values;        ///< [2·C], float32, as if one replica held all samples.
  std::int64_t samples{0};  ///< Of all members: what they count for each channel.
};

/// Combines the statistics of one batch-norm layer (numbered as in norm_channels()) over all replicas. `own` [2·C],
/// float32, are those of one replica over `samples` values per channel: forward, C means and then C biased variances,
/// which are merged; backward, two means per channel, which are averaged. Blocks until all replicas have brought
/// theirs; throws if one never will. Any thread, one at a time.
using group_mean =
    std::function<group_means(std::size_t layer, bool backward, const at::Tensor& own, std::int64_t samples)>;

class network {
 public:
  using named_tensors = std::vector<std::pair<std::string, at::Tensor>>;

  virtual ~network() = default;

  /// Returns [N, classes] (scores, or log-probabilities where loss() is nll) for `input` [N, C, H, W] or [N, D],
  /// float32; of a text [N, T, classes], scores of what comes next, for `input` [N, T], int64; of sparse samples [N],
  /// one score or number each, for `input` [N, columns], sparse CSR, float32 and int32 indices. A rating is a row with
  /// a 1 at its user's column and one at its item's, which count on from the users.
  virtual at::Tensor forward(const at::Tensor& input) = 0;

  /// Switches dropout and batch-norm statistics on (training) or off.
  virtual void train(bool on) = 0;

  /// Makes every random draw of a forward pass come from `generator`.
  virtual void draw_from(at::Generator generator) = 0;

  /// Parameters in order of registration, under their usual PyTorch names; aliases, not copies.
  virtual named_tensors parameters() const = 0;

  /// Buffers, likewise.
  virtual named_tensors buffers() const = 0;

  /// Says whether a buffer counts: float32 here, so that flat storage holds it, and int64 in a state dict.
  virtual bool counts(const std::string& buffer) const { return (void)buffer, false; }

  /// Draws the weights of all convolutions and linear layers anew, in order of registration, from the process-wide
  /// generator. Throws std::invalid_argument if the model does not support it.
  virtual void draw_weights(const normal_initializer& how);

  /// The loss that fits what forward() returns.
  virtual loss_kind loss() const = 0;

  /// Says whether another one may be asked for, because nobody knows what forward() returns.
  virtual bool takes_any_loss() const { return false; }

  /// Random operators of a forward pass in training that do not draw from draw_from()'s generator. With one, a result
  /// is no function of the seed.
  virtual std::vector<std::string> draws_elsewhere() const { return {}; }

  /// Channels of each batch-norm layer, in the order of a forward pass. Empty: there is none.
  virtual std::vector<std::int64_t> norm_channels() const { return {}; }

  /// Has batch-norm layers in training normalise by the statistics of a group of replicas, which `mean` brings
  /// together, as PyTorch's SyncBatchNorm does. Null: by those of the own batch.
  virtual void synchronise(group_mean mean) { (void)mean; }
};

/// What the topology file calls it.
std::string name_of(loss_kind kind);

/// Returns the scalar mean loss of `output` as forward() returns it against `target` [N], int64, or float32 numbers; of
/// a text [N, T], the mean over all its characters, in nats.
at::Tensor mean_loss(loss_kind kind, const at::Tensor& output, const at::Tensor& target);

/// Returns how many of target.numel() samples, or characters, `output` puts into their class: their own score is among
/// the `k` highest, the first of equal ones counting as the highest. Nothing where they stand for numbers.
std::optional<std::int64_t> count_correct(loss_kind kind, const at::Tensor& output, const at::Tensor& target,
                                          std::int64_t k = 1);

/// Returns count_correct() for k = 1 as an int64 scalar tensor where `output` lies, without waiting for a device.
std::optional<at::Tensor> correct_targets(loss_kind kind, const at::Tensor& output, const at::Tensor& target);

/// A model that a topology file can name.
struct network_kind {
  std::string name;
  std::string explanation;  ///< One line.
  /// Makes one with the model's own initialisers, drawn from the process-wide generator; network_shape::normal is
  /// make_network's affair. Throws std::invalid_argument where the model cannot take inputs of this shape.
  std::unique_ptr<network> (*make)(const network_shape& shape);
  sparse_sgd step{nullptr};          ///< Of sparse samples: plain SGD without a backward pass. Null: there is none.
  std::vector<std::string> reads{};  ///< The keys of network_shape that it goes by: rank, layers, width …
};

/// All models, in the order in which `troupe list` shows them.
const std::vector<network_kind>& network_kinds();

/// Says whether network_shape::normal applies to a model: not to a script, nor to one of sparse samples.
bool draws_normal_weights(const network_kind& kind);

/// Returns the model of this name, or nullptr.
const network_kind* find_network(const std::string& name);

/// Makes a network with initial weights that are a function of `seed` only: those of `torch.manual_seed(seed)`
/// followed by the module's construction in Python and, where the shape says so, by drawing its weights anew. Callable
/// from any thread.
std::unique_ptr<network> make_network(const network_kind& kind, const network_shape& shape, std::uint64_t seed);

}  // namespace troupe::models
