// Files of samples that are sparse rows, read from text into memory or into a binary file next to the text
// (`<file>.rows`), which is then mapped. A file is read once from start to end, row by row; each format is defined in
// the file of its kind.
//
// A .rows file, in the machine's byte order, has a header (see row_files.cpp), then `cells` and `offsets` as in
// sparse_rows, then the targets (int64 classes, or float32 numbers padded with zeros to eight bytes). It is written to
// a temporary file and then renamed. It is used only if it was made from the text as it is now, its checksum matches,
// and none of its contents could mislead a reader; otherwise it is made again.
#pragma once

#include "troupe/data/formats/lines.hpp"
#include "troupe/data/formats/sparse_rows.hpp"
#include "troupe/data/sets/dataset.hpp"

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::data {

/// One line of a text file, reused for the next line.
struct sample {
  std::vector<std::int32_t> columns;  ///< Ascending, from 0.
  std::vector<float> values;          ///< One value per column.
  float target{0};                    ///< Target, or index of the label in order of appearance: 0 or 1.
};

/// Facts about a whole file besides its rows.
struct row_facts {
  std::array<std::int64_t, 2> extents{};  ///< [columns, 0] or [users, items]: the maximum found in this file.
  std::array<float, 2> labels{};          ///< Labels of class 0 and class 1, if targets are classes.
  std::int64_t users{0};                  ///< First column of the items.
  bool swapped{false};                    ///< Whether the label that appears first is that of class 1.
};

/// Values needed to make rows that are not in the file itself.
struct row_context {
  std::optional<std::array<float, 2>> labels{};  ///< Labels of the training set.
  std::int64_t users{0};                         ///< Number of users in both files.
};

/// Reads a file of one format.
class sample_reader {
 public:
  virtual ~sample_reader() = default;

  /// Reads the next sample; returns false at the end of the file. Throws data_error.
  virtual bool next(sample& into) = 0;

  /// Returns facts about the whole file, once next() has returned false. Throws data_error if the file cannot be a data
  /// set.
  virtual row_facts facts() const = 0;
};

struct sample_format {
  std::uint32_t number{0};  ///< Number of the format in the header of a .rows file.
  bool classes{false};      ///< Whether targets are one of two classes, int64; otherwise they are float32 numbers.
  std::unique_ptr<sample_reader> (*open)(const std::filesystem::path& file, const std::string& key,
                                         const row_context& context);
};

/// Rows and related data. The number of columns is known once both files of a set are read.
struct row_set {
  row_facts facts;
  std::int64_t rows{0};
  const std::int64_t* offsets{nullptr};  ///< See sparse_rows for this and the next two.
  const std::int32_t* cells{nullptr};
  std::shared_ptr<const void> owner;
  at::Tensor targets;  ///< [N].
};

/// Returns the contents of `<file>.rows` if they can be trusted.
std::optional<row_set> mapped_rows(const sample_format& format, const std::filesystem::path& file);

/// Reads the text into memory or into `<file>.rows`, which is then mapped. `key` names the file in messages. Throws
/// data_error.
row_set read_rows(const sample_format& format, const std::filesystem::path& file, const std::string& key,
                  const row_context& context, bool mapped);

/// Returns the data set of these rows.
std::shared_ptr<const dataset> dataset_of(const row_set& set, std::int64_t columns, std::vector<std::string> classes);

}  // namespace troupe::data
