// Sparse rows, read safely for computations: a file from which rows are mapped may change at any time.
#pragma once

#include "troupe/data/formats/sparse_rows.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace troupe::data {

class mapped_file;

/// Rows that are safe to use. Rows in memory are returned as they are. For rows in a mapped file, the columns are
/// copied and checked; the values stay in the file and may be anything until require_unchanged(). One thread.
class checked_rows {
 public:
  /// Returns the rows `indices`, valid until the next call. Throws data_error if a column is not one of the set.
  std::span<const sparse_rows::row> take(const sparse_rows& from, std::span<const std::int64_t> indices);

  /// Throws data_error if the file that the rows are in has changed since it was mapped. Call it once the rows have
  /// been used, before relying on the result.
  void require_unchanged() const;

 private:
  std::vector<sparse_rows::row> rows_;
  std::vector<std::int32_t> columns_;
  const mapped_file* file_{nullptr};
};

/// Calls act(index, row) for each row, in order. Throws data_error as checked_rows does.
template <class Act>
void for_each_row(const sparse_rows& all, Act act) {
  constexpr std::int64_t at_once = 1024;
  checked_rows some;
  std::vector<std::int64_t> indices;
  for (std::int64_t first = 0; first < all.rows(); first += at_once) {
    indices.clear();
    for (auto index = first; index < std::min(all.rows(), first + at_once); ++index) indices.push_back(index);
    auto index = first;
    for (const auto& row : some.take(all, indices)) act(index++, row);
    some.require_unchanged();
  }
}

}  // namespace troupe::data
