#include "troupe/data/formats/checked_rows.hpp"

#include "troupe/data/formats/mapped_file.hpp"

namespace troupe::data {

namespace {

// Number of rows to prefetch ahead: rows are visited in random order, in memory that fits no cache.
constexpr std::size_t rows_ahead = 12;

void prefetch(const sparse_rows::row& row) {
  constexpr std::int64_t columns_of_a_line = 16;
  for (std::int64_t at = 0; at < row.count; at += columns_of_a_line) __builtin_prefetch(row.columns + at);
}

// Copies the columns of a row and returns a number whose highest bit is set if a column is negative or larger than
// `last`.
std::uint32_t copy(const std::int32_t* __restrict from, std::int64_t count, std::uint32_t last,
                   std::int32_t* __restrict into) {
  std::uint32_t wrong = 0;
  for (std::int64_t at = 0; at < count; ++at) {
    const auto column = from[at];
    into[at] = column;
    wrong |= static_cast<std::uint32_t>(column) | (last - static_cast<std::uint32_t>(column));
  }
  return wrong;
}

}  // namespace

std::span<const sparse_rows::row> checked_rows::take(const sparse_rows& from, std::span<const std::int64_t> indices) {
  rows_.clear();
  for (const auto index : indices) rows_.push_back(from.at(index));
  file_ = rows_.empty() ? nullptr : mapped_file::of(rows_.front().columns);
  if (file_ == nullptr) return rows_;
  std::size_t columns = 0;
  for (const auto& row : rows_) columns += static_cast<std::size_t>(row.count);
  if (columns_.size() < columns) columns_.resize(columns);
  auto* into = columns_.data();
  std::uint32_t wrong = 0;
  const auto last = static_cast<std::uint32_t>(from.columns() - 1);
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (i + rows_ahead < rows_.size()) prefetch(rows_[i + rows_ahead]);
    auto& row = rows_[i];
    wrong |= copy(row.columns, row.count, last, into);
    row.columns = into;
    into += row.count;
  }
  if (wrong >> 31 != 0) file_->fail_as_changed();
  return rows_;
}

void checked_rows::require_unchanged() const {
  if (file_ != nullptr) file_->require_unchanged();
}

}  // namespace troupe::data
