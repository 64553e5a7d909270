// Files of samples that are sparse rows, from text to memory or to a binary file beside the text (`<file>.rows`) that
// is mapped. A file is read once from front to back, row by row; what a format is made of is in the file of its kind.
//
// A .rows file, in the byte order of the machine: a header (see row_files.cpp), then `cells` and `offsets` as
// sparse_rows has them, then the targets (int64 classes, or float32 numbers and zeros up to eight bytes). It is
// written aside and then renamed, and believed only where it was made from the text as it is now, holds what its
// checksum says, and nothing in it could lead a reader astray; else it is made anew.
#pragma once

#include "troupe/data/dataset.hpp"
#include "troupe/data/lines.hpp"
#include "troupe/data/sparse_rows.hpp"

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::data {

/// One line of a text file; used again for the next.
struct sample {
  std::vector<std::int32_t> columns;  ///< Ascending, from 0.
  std::vector<float> values;          ///< As many.
  float target{0};                    ///< Or which of the two labels, in the order of appearance: 0 or 1.
};

/// What is known of a whole file beside its rows.
struct row_facts {
  std::array<std::int64_t, 2> extents{};  ///< [columns, 0], or [users, items]: as many as this file shows.
  std::array<float, 2> labels{};          ///< Of class 0 and class 1, where targets are classes.
  std::int64_t users{0};                  ///< The column that items begin at.
  bool swapped{false};                    ///< The label that appears first is that of class 1.
};

/// What rows are made with that their own file does not say.
struct row_context {
  std::optional<std::array<float, 2>> labels{};  ///< Those of the training set.
  std::int64_t users{0};                         ///< Of both files.
};

/// Reads a file of one format.
class sample_reader {
 public:
  virtual ~sample_reader() = default;

  /// Reads the next sample; false at the end of the file. Throws data_error.
  virtual bool next(sample& into) = 0;

  /// Of the whole file, once next() has returned false. Throws data_error where it cannot be a set.
  virtual row_facts facts() const = 0;
};

struct sample_format {
  std::uint32_t number{0};  ///< In the header of a .rows file.
  bool classes{false};      ///< Targets are one of two classes, int64; else numbers, float32.
  std::unique_ptr<sample_reader> (*open)(const std::filesystem::path& file, const std::string& key,
                                         const row_context& context);
};

/// Rows and what belongs to them; how many columns there are is known once both files of a set are.
struct row_set {
  row_facts facts;
  std::int64_t rows{0};
  const std::int64_t* offsets{nullptr};  ///< See sparse_rows, also for the next two.
  const std::int32_t* cells{nullptr};
  std::shared_ptr<const void> owner;
  at::Tensor targets;  ///< [N].
};

/// Returns what stands in `<file>.rows`, where that is to be believed.
std::optional<row_set> mapped_rows(const sample_format& format, const std::filesystem::path& file);

/// Reads the text, into memory or into `<file>.rows`, which is then mapped. `key` names the file in messages. Throws
/// data_error.
row_set read_rows(const sample_format& format, const std::filesystem::path& file, const std::string& key,
                  const row_context& context, bool mapped);

/// Returns the data set of these rows.
std::shared_ptr<const dataset> dataset_of(const row_set& set, std::int64_t columns, std::vector<std::string> classes);

}  // namespace troupe::data
