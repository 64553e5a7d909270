// A data set in memory: immutable once made, shared by all workers of a process, read by any thread.
#pragma once

#include "troupe/data/sparse_rows.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe::data {

/// Images in files of their own, which are read when they are wanted. Any thread.
class image_files {
 public:
  virtual ~image_files() = default;

  /// Returns [C, H, W], the same for all.
  virtual std::vector<std::int64_t> shape() const = 0;

  /// Decodes image `index` to the set's size: uint8 [C, H, W] at `into`. Throws data_error, naming the file.
  virtual void read(std::int64_t index, std::uint8_t* into) const = 0;

  /// What tells one set of files from another, for nodes that compare theirs: of each its name, its size, and a sum of
  /// its first and last 4 KiB. Files that differ only between those pass for the same. Throws data_error.
  virtual std::string identity() const = 0;

  /// The images `indices`, in that order.
  virtual std::shared_ptr<const image_files> chosen(const std::vector<std::int64_t>& indices) const = 0;
};

struct dataset {
  /// [N, C, H, W], uint8 in 0..255; or [N, …], float32, taken as they are; or [N, T], int64, characters. Undefined
  /// where samples are sparse, or are files.
  at::Tensor inputs;
  at::Tensor targets;                ///< [N], int64, class indices; or float32, numbers; of a text [N, T], int64.
  std::vector<std::string> classes;  ///< A name for each class; none: targets are numbers.
  std::shared_ptr<const sparse_rows> rows{};   ///< The samples where they are sparse, else null.
  std::shared_ptr<const image_files> files{};  ///< The samples where they are read one by one, else null.
  /// [characters], int64: the text from which training draws windows that begin anywhere. If undefined, training uses
  /// `inputs` and `targets`; evaluation always does.
  at::Tensor drawn_from{};
  std::int64_t size() const { return targets.size(0); }
};

/// Value = (byte / 255 − mean[c]) / std[c] for each channel c; neither: byte / 255.
struct normalisation {
  std::vector<double> mean, std;
};

/// What a topology file names: a training set, a test set, and how to scale them.
struct dataset_pair {
  std::shared_ptr<const dataset> train, test;
  normalisation scale;
  std::vector<std::string> files;            ///< What was read, for messages.
  std::vector<std::int64_t> sample_shape{};  ///< Where the kind does not say: of one sample.
};

/// Where a data set comes from, and what it is made like: what a topology file can say of it.
struct data_source {
  std::filesystem::path folder{};             ///< The set's own, below the data folder; empty for a built-in one.
  std::filesystem::path file{}, test_file{};  ///< Of a set that is read from the user's files.
  bool mapped{false};                         ///< Sparse rows stay in a file beside theirs, mapped into memory.
  std::int64_t rows{20'000}, columns{10'000}, nonzeros{50};  ///< Of the built-in sparse set: its training rows.
  double skew{1};                            ///< Of it: 1, all columns alike often; above, some of them in many rows.
  std::uint64_t seed{0};                     ///< Of it.
  std::int64_t sequence_length{64};          ///< Of a text: characters of a sample, T.
  bool random_windows{false};                ///< Of a text: a sample begins anywhere in training.
  std::optional<std::int64_t> image_size{};  ///< Of a folder of images: height and width. None: all are of one size.

  data_source() = default;
  data_source(std::filesystem::path its_folder) : folder(std::move(its_folder)) {}
};

/// A batch as a network takes it.
struct batch {
  at::Tensor inputs;   ///< [b, …], float32; or [b, T], int64; or [b, columns], sparse CSR, float32 and int32 indices.
  at::Tensor targets;  ///< [b], int64 or float32; or [b, T], int64.
};

struct augmentation;

/// How the samples of an epoch are changed, or drawn: as a function of (seed, epoch, index of the sample) only.
struct augmenting {
  const augmentation* how{nullptr};  ///< None: they are not, as in evaluation.
  std::uint64_t seed{0}, epoch{0};
};

/// Gathers the samples `indices` in that order. Throws std::out_of_range, and data_error where a file cannot be read.
batch make_batch(const dataset& set, const normalisation& scale, const std::vector<std::int64_t>& indices,
                 const augmenting& by = {});

/// A missing, truncated or inconsistent file; what() names the file, the reason and the mend.
struct data_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A data set that a topology file can name.
struct dataset_kind {
  std::string name;
  std::string explanation;                 ///< One line.
  std::string folder;                      ///< Below the data folder; empty for a built-in one.
  std::vector<std::int64_t> sample_shape;  ///< [C, H, W]; empty where the source says: see dataset_pair.
  std::int64_t classes{0};                 ///< 0: as many as the set has; none: targets are numbers.
  normalisation published;  ///< Mean and std of the training set as its publisher or the field states them.
  /// Reads or makes both sets. Throws data_error.
  dataset_pair (*load)(const data_source& from);
  std::vector<std::string> reads{};                   ///< The keys of data_source that it goes by, besides its folder.
  std::int64_t training_samples{0}, test_samples{0};  ///< As published; 0: only its files say.
};

/// All data sets, in the order in which `troupe list` shows them.
const std::vector<dataset_kind>& dataset_kinds();

/// Returns the data set of this name, or nullptr.
const dataset_kind* find_dataset(const std::string& name);

/// Returns the data folder: `given` if not empty, else $TROUPE_DATA, else "data-cache" in the current folder.
std::filesystem::path data_folder(const std::filesystem::path& given);

}  // namespace troupe::data
