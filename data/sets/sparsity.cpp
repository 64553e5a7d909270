#include "troupe/data/sets/sparsity.hpp"

#include "troupe/data/formats/checked_rows.hpp"
#include "troupe/data/sets/dataset.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <numeric>
#include <span>
#include <unordered_map>

namespace troupe::data {

namespace {

// For each column, the rows that touch it: those of column v are at begins[v] up to, but not including, begins[v + 1].
struct edges {
  std::vector<std::int64_t> begins;
  std::vector<std::int32_t> rows;

  std::span<const std::int32_t> of(std::size_t column) const {
    return {rows.begin() + begins[column], rows.begin() + begins[column + 1]};
  }
};

edges transposed(const sparse_rows& rows, const std::vector<std::int64_t>& degrees) {
  edges result{std::vector<std::int64_t>(degrees.size() + 1), {}};
  std::partial_sum(degrees.begin(), degrees.end(), result.begins.begin() + 1);
  result.rows.resize(static_cast<std::size_t>(rows.nonzeros()));
  std::vector<std::int64_t> next(result.begins.begin(), result.begins.end() - 1);
  for_each_row(rows, [&](std::int64_t index, const sparse_rows::row& row) {
    for (std::int64_t nonzero = 0; nonzero < row.count; ++nonzero) {
      const auto column = static_cast<std::size_t>(row.columns[nonzero]);
      if (next[column] == result.begins[column + 1]) throw data_error("the rows changed while they were being counted");
      result.rows[static_cast<std::size_t>(next[column]++)] = static_cast<std::int32_t>(index);
    }
  });
  return result;
}

// A row and an upper bound of the number of rows that it meets: the number of rows that touch each of its columns,
// summed, so that a row may be counted several times.
struct candidate {
  std::int64_t bound;
  std::int32_t row;
};

std::vector<candidate> candidates(const sparse_rows& rows, const std::vector<std::int64_t>& degrees) {
  std::vector<candidate> all;
  all.reserve(static_cast<std::size_t>(rows.rows()));
  for_each_row(rows, [&](std::int64_t index, const sparse_rows::row& row) {
    std::int64_t bound = 0;
    for (std::int64_t nonzero = 0; nonzero < row.count; ++nonzero) {
      bound += degrees[static_cast<std::size_t>(row.columns[nonzero])];
    }
    all.push_back({bound, static_cast<std::int32_t>(index)});
  });
  std::sort(all.begin(), all.end(), [](const candidate& a, const candidate& b) {
    return a.bound != b.bound ? a.bound > b.bound : a.row < b.row;
  });
  return all;
}

// The union of the rows that touch some columns, as bits: for most sets, one bit per row fits in the fastest memory.
class union_of_rows {
 public:
  explicit union_of_rows(std::int64_t rows) : words_(words_for(rows)) {}

  static std::size_t words_for(std::int64_t rows) { return static_cast<std::size_t>(rows + 63) / 64; }

  void clear() { std::fill(words_.begin(), words_.end(), 0); }

  void add(std::span<const std::int32_t> rows) {
    std::uint64_t* words = words_.data();
    std::int64_t size = size_;  // not the member, because nearly all time is spent in this loop
    for (const std::int32_t row : rows) {
      const auto at = static_cast<std::uint32_t>(row);
      const std::uint64_t word = words[at / 64], bit = std::uint64_t{1} << at % 64;
      size += (word & bit) == 0 ? 1 : 0;
      words[at / 64] = word | bit;
    }
    size_ = size;
  }

  // Adds rows as bits. Call count() after the last of these calls.
  void add(const std::vector<std::uint64_t>& bits) {
    for (std::size_t index = 0; index < words_.size(); ++index) words_[index] |= bits[index];
  }

  void count() {
    size_ = 0;
    for (const std::uint64_t word : words_) size_ += std::popcount(word);
  }

  std::int64_t size() const { return size_; }
  const std::vector<std::uint64_t>& words() const { return words_; }

 private:
  std::vector<std::uint64_t> words_;
  std::int64_t size_{0};
};

// Finds the row that meets the most rows.
class search {
 public:
  search(const sparse_rows& rows, const std::vector<std::int64_t>& degrees, std::int64_t budget)
      : rows_{rows}, degrees_{degrees}, budget_{budget}, touching_{transposed(rows, degrees)}, met_{rows.rows()} {
    for (std::size_t column = 0; column < degrees.size(); ++column) {
      if (is_hot(column)) hot_.emplace(column, bits_of(column));
    }
  }

  // Returns how many rows that row meets, itself included; at least `least`, a known lower bound.
  std::int64_t most_met(std::int64_t least) {
    std::int64_t best = least;
    for (const candidate& tried : candidates(rows_, degrees_)) {
      if (std::min(tried.bound, rows_.rows()) <= best) break;
      best = std::max(best, met_by(tried, best));
      if (!exact_) break;
    }
    return best;
  }

  bool exact() const { return exact_; }

 private:
  // Returns whether a column has so many rows that reading them as bits is faster than reading their list.
  bool is_hot(std::size_t column) const { return degrees_[column] > rows_.rows() / 16; }

  std::vector<std::uint64_t> bits_of(std::size_t column) const {
    union_of_rows bits{rows_.rows()};
    bits.add(touching_.of(column));
    return bits.words();
  }

  // Returns how many rows a candidate meets; too few if that cannot be more than `best` or if the budget is used up.
  std::int64_t met_by(const candidate& tried, std::int64_t best) {
    const auto row = row_.take(rows_, std::array{std::int64_t{tried.row}}).front();
    std::int64_t left = tried.bound;
    met_.clear();
    for (std::int64_t nonzero = 0; nonzero < row.count; ++nonzero) {
      const auto column = static_cast<std::size_t>(row.columns[nonzero]);
      if (!is_hot(column)) continue;
      left -= degrees_[column];
      budget_ -= static_cast<std::int64_t>(met_.words().size());
      met_.add(hot_.at(column));
    }
    met_.count();
    for (std::int64_t nonzero = 0; nonzero < row.count && met_.size() + left > best; ++nonzero) {
      const auto column = static_cast<std::size_t>(row.columns[nonzero]);
      if (is_hot(column)) continue;
      left -= degrees_[column];
      budget_ -= degrees_[column];
      if (budget_ < 0) break;
      met_.add(touching_.of(column));
    }
    row_.require_unchanged();
    exact_ = budget_ >= 0;
    return met_.size();
  }

  const sparse_rows& rows_;
  checked_rows row_;
  const std::vector<std::int64_t>& degrees_;
  std::int64_t budget_;
  bool exact_{true};
  edges touching_;
  union_of_rows met_;
  std::unordered_map<std::size_t, std::vector<std::uint64_t>> hot_;
};

}  // namespace

std::vector<std::int64_t> touches(const sparse_rows& rows) {
  std::vector<std::int64_t> by_column(static_cast<std::size_t>(rows.columns()));
  for_each_row(rows, [&](std::int64_t, const sparse_rows::row& row) {
    for (std::int64_t nonzero = 0; nonzero < row.count; ++nonzero) {
      ++by_column[static_cast<std::size_t>(row.columns[nonzero])];
    }
  });
  return by_column;
}

sparsity sparsity_of(const sparse_rows& rows, std::int64_t budget) {
  if (rows.rows() == 0) return {};
  sparsity result;
  for (std::int64_t index = 0; index < rows.rows(); ++index)
    result.omega = std::max(result.omega, rows.at(index).count);
  const std::vector<std::int64_t> degrees = touches(rows);
  const std::int64_t hottest = degrees.empty() ? 0 : *std::max_element(degrees.begin(), degrees.end());
  // The rows of the hottest column meet each other: their number is a lower bound, and the result for sets whose
  // transpose would take more memory than the budget allows.
  std::int64_t met = hottest;
  if (rows.nonzeros() > budget || rows.rows() > std::numeric_limits<std::int32_t>::max()) {
    result.rho_is_exact = hottest == rows.rows();
  } else {
    search finder{rows, degrees, budget};
    met = finder.most_met(hottest);
    result.rho_is_exact = finder.exact();
  }
  const auto row_count = static_cast<double>(rows.rows());
  result.delta = static_cast<double>(hottest) / row_count;
  result.rho = static_cast<double>(met) / row_count;
  result.mean_nonzeros = static_cast<double>(rows.nonzeros()) / row_count;
  return result;
}

}  // namespace troupe::data
