// A data set in memory: immutable once made, shared by all workers of a process, readable by any thread.
#pragma once

#include "troupe/data/formats/data_error.hpp"
#include "troupe/data/formats/sparse_rows.hpp"
#include "troupe/files/setting.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe::data {

/// Images stored in separate files that are read when needed. Any thread.
class image_files {
 public:
  virtual ~image_files() = default;

  /// Returns [C, H, W], the same for all images.
  virtual std::vector<std::int64_t> shape() const = 0;

  /// Decodes image `index` to the set's size: uint8 [C, H, W] at `into`. Throws data_error, naming the file.
  virtual void read(std::int64_t index, std::uint8_t* into) const = 0;

  /// Returns an identity of the set, which nodes compare with theirs: the name, the size, and a checksum of the first
  /// and last 4 KiB of each file. Files that differ only in between count as equal. Throws data_error.
  virtual std::string identity() const = 0;

  /// Returns the images `indices`, in that order.
  virtual std::shared_ptr<const image_files> chosen(const std::vector<std::int64_t>& indices) const = 0;
};

/// A training or a test set.
struct dataset {
  /// Samples: [N, C, H, W], uint8 in 0..255; or [N, …], float32, used as they are; or [N, T], int64, characters.
  /// Undefined if samples are sparse or files.
  at::Tensor inputs{};
  at::Tensor targets{};  ///< Targets: [N], int64 class indices; or [N], float32 numbers; or, for text, [N, T], int64.
  std::vector<std::string> classes{};          ///< Name of each class; empty if targets are numbers.
  std::shared_ptr<const sparse_rows> rows{};   ///< Samples if they are sparse, otherwise null.
  std::shared_ptr<const image_files> files{};  ///< Samples if they are read one by one, otherwise null.
  /// [characters], int64: the text from which training draws windows at random positions. If undefined, training uses
  /// `inputs` and `targets`; evaluation always does.
  at::Tensor drawn_from{};
  /// Returns the number of samples, N.
  std::int64_t size() const { return targets.size(0); }
};

/// Normalisation: value = (byte / 255 − mean[c]) / std[c] for each channel c; empty lists: byte / 255.
struct normalisation {
  std::vector<double> mean;  ///< By channel, for values scaled to [0, 1].
  std::vector<double> std;   ///< By channel, for values scaled to [0, 1].
};

/// Data that a topology file names: a training set, a test set, and their normalisation.
struct dataset_pair {
  std::shared_ptr<const dataset> train{};    ///< Training set.
  std::shared_ptr<const dataset> test{};     ///< Set on which the model is evaluated.
  normalisation scale{};                     ///< Normalisation of both, as published; not read for registered kinds.
  std::vector<std::string> files{};          ///< Files that were read, for messages.
  std::vector<std::int64_t> sample_shape{};  ///< Shape of one sample, if the kind does not define it.
};

/// Source of a data set and its options: what a topology file can set.
struct data_source {
  std::filesystem::path folder{};     ///< The set's own folder below the data folder; empty for built-in sets.
  std::filesystem::path file{};       ///< Training set, for a kind that reads the user's files.
  std::filesystem::path test_file{};  ///< Test set of such a kind.
  bool mapped{false};                 ///< Sparse rows stay in a file next to the text, mapped into memory.
  std::int64_t rows{20'000};          ///< Training rows of the built-in sparse set.
  std::int64_t columns{10'000};       ///< Columns of the built-in sparse set.
  std::int64_t nonzeros{50};          ///< Nonzeros per row of the built-in sparse set.
  /// Skew of the built-in sparse set: 1 for equally frequent columns; larger values make some columns occur in many
  /// rows.
  double skew{1};
  std::uint64_t seed{0};             ///< Seed of the built-in sparse set.
  std::int64_t sequence_length{64};  ///< Characters per sample of a text, T.
  bool random_windows{false};        ///< Training samples of a text begin at random positions.
  /// Height and width of the images of an image folder; empty if all have the same size.
  std::optional<std::int64_t> image_size{};
  // A column is called by its name in the header or by its number: from 0 up, or from -1, the last one, down.
  std::vector<std::string> inputs{};  ///< Columns of the inputs; empty for all but the target.
  std::string label{};                ///< Column of the labels; if it and `target` are empty, the last one.
  std::string target{};               ///< Column of the numbers to predict; empty if targets are labels.
  std::optional<bool> header{};       ///< Whether the first row has the names of the columns; if empty, this is found.
  setting_values settings{};          ///< Values of dataset_kind::settings.

  data_source() = default;  ///< A built-in set with default options.
  /// A set in this folder.
  data_source(std::filesystem::path its_folder) : folder(std::move(its_folder)) {}
};

/// A batch in the form a network takes.
struct batch {
  at::Tensor inputs;   ///< [b, …], float32; or [b, T], int64; or [b, columns], sparse CSR, float32 and int32 indices.
  at::Tensor targets;  ///< [b], int64 or float32; or [b, T], int64.
};

struct augmentation;

/// Changes or draws applied to the samples of an epoch, as a function of (seed, epoch, sample index) only.
struct augmenting {
  const augmentation* how{nullptr};  ///< Changes to apply; null for none, as in evaluation.
  std::uint64_t seed{0};             ///< run.seed.
  std::uint64_t epoch{0};            ///< Epoch, from 0.
};

/// Returns a batch of the samples `indices`, in that order. Throws std::out_of_range, and data_error if a file cannot
/// be read.
batch make_batch(const dataset& set, const normalisation& scale, const std::vector<std::int64_t>& indices,
                 const augmenting& by = {});

/// A data set that a topology file can name.
struct dataset_kind {
  std::string name{};                        ///< Value of data.name.
  std::string explanation{};                 ///< One line of help.
  std::string folder{};                      ///< Folder below the data folder; empty for built-in sets.
  std::vector<std::int64_t> sample_shape{};  ///< Shape [C, H, W]; empty if the source defines it: see dataset_pair.
  std::int64_t classes{0};    ///< Number of classes; 0: as many as the set has, or none if targets are numbers.
  normalisation published{};  ///< Mean and std of the training set, as stated by its publisher or in common use.
  /// Reads or generates both sets. Throws data_error.
  std::function<dataset_pair(const data_source& from)> load{};
  std::int64_t training_samples{0};  ///< Published size; 0 if it depends on the files.
  std::int64_t test_samples{0};      ///< Published size; 0 if it depends on the files.
  std::vector<std::string> reads{};  ///< Keys of data_source that the kind uses in addition to its folder.
  std::vector<setting> settings{};   ///< Keys of its own in the section [data]; see data_source::settings.
  bool draws{false};                 ///< Whether samples may depend on data_source::seed.
};

/// All data sets, in the order in which `troupe list` shows them.
const std::deque<dataset_kind>& dataset_kinds();

/// Returns the data set of this name, or nullptr.
const dataset_kind* find_dataset(const std::string& name);

/// Adds a data set to those that topology files can name. Call it first in a program's main(), or from a plug-in. What
/// its function loads is checked: inputs and targets must be as in `dataset`. Without a test set, the training set is
/// evaluated; dataset_pair::sample_shape and the names of classes, which are then their numbers, may be left out.
/// Throws std::invalid_argument if the name is taken or `load` is empty.
void register_dataset(dataset_kind kind);

/// Returns the data folder: `given` if not empty, otherwise $TROUPE_DATA, otherwise "data-cache" in the current folder.
std::filesystem::path data_folder(const std::filesystem::path& given);

}  // namespace troupe::data
