// Rows of numbers most of which are zero: the nonzeros, row after row, in memory or in a mapped file.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace troupe::data {

/// Sparse rows; immutable once made, readable by any thread.
class sparse_rows {
 public:
  /// Nonzeros of one row: `columns` ascending, each with its value. Four bytes each, one list after the other.
  struct row {
    const std::int32_t* columns{nullptr};  ///< Columns, ascending.
    const float* values{nullptr};          ///< Value in each of these columns.
    std::int64_t count{0};                 ///< Number of nonzeros.
  };

  /// Makes a set of rows. `offsets` [rows + 1] is the number of nonzeros before each row. `cells` [2 · nonzeros], four
  /// bytes each, contain for each row its columns, then its values (float32). `owner` keeps both alive.
  sparse_rows(std::int64_t rows, std::int64_t columns, const std::int64_t* offsets, const std::int32_t* cells,
              std::shared_ptr<const void> owner)
      : rows_(rows),
        columns_(columns),
        nonzeros_(offsets[rows] - offsets[0]),
        offsets_(offsets),
        cells_(cells),
        owner_(std::move(owner)) {}

  /// Returns the rows `indices`, in that order. The data stays where it is, because a mapped set may be larger than
  /// memory.
  std::shared_ptr<const sparse_rows> chosen(std::vector<std::int64_t> indices) const;

  std::int64_t rows() const { return rows_; }          ///< Returns the number of rows.
  std::int64_t columns() const { return columns_; }    ///< Returns the number of columns.
  std::int64_t nonzeros() const { return nonzeros_; }  ///< Returns the number of nonzeros of all rows.

  /// Returns row `index`, which is not checked.
  row at(std::int64_t index) const {
    if (which_ != nullptr) index = which_[index];
    const auto first = offsets_[index], count = offsets_[index + 1] - first;
    const auto* cells = cells_ + 2 * first;
    return {cells, reinterpret_cast<const float*>(cells + count), count};
  }

 private:
  std::int64_t rows_, columns_, nonzeros_;
  const std::int64_t* which_{nullptr};  // Position of each row among those of the offsets; null if they are the same.
  const std::int64_t* offsets_;
  const std::int32_t* cells_;
  std::shared_ptr<const void> owner_;
};

}  // namespace troupe::data
