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

// By column, the rows that touch it: those of column v stand from begins[v] to begins[v + 1].
struct edges {
  std::vector<std::int64_t> begins;
  std::vector<std::int32_t> rows;

  std::span<const std::int32_t> of(std::size_t column) const {
    return {rows.begin() + begins[column], rows.begin() + begins[column + 1]};
  }
};

edges transposed(const sparse_rows& rows, const std::vector<std::int64_t>& degrees) {
  edges made{std::vector<std::int64_t>(degrees.size() + 1), {}};
  std::partial_sum(degrees.begin(), degrees.end(), made.begins.begin() + 1);
  made.rows.resize(static_cast<std::size_t>(rows.nonzeros()));
  std::vector<std::int64_t> next(made.begins.begin(), made.begins.end() - 1);
  for_each_row(rows, [&](std::int64_t index, const sparse_rows::row& row) {
    for (std::int64_t nonzero = 0; nonzero < row.count; ++nonzero) {
      const auto column = static_cast<std::size_t>(row.columns[nonzero]);
      if (next[column] == made.begins[column + 1]) throw data_error("the rows changed while they were being counted");
      made.rows[static_cast<std::size_t>(next[column]++)] = static_cast<std::int32_t>(index);
    }
  });
  return made;
}

// A row, and how many rows it could meet: as many as touch its columns, were no row counted twice.
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

// The union of the rows that touch some columns, as bits: as many fit the fastest memory as there are rows in most
// sets.
class union_of_rows {
 public:
  explicit union_of_rows(std::int64_t rows) : words_(words_for(rows)) {}

  static std::size_t words_for(std::int64_t rows) { return static_cast<std::size_t>(rows + 63) / 64; }

  void clear() { std::fill(words_.begin(), words_.end(), 0); }

  void add(std::span<const std::int32_t> rows) {
    std::uint64_t* words = words_.data();
    std::int64_t size = size_;  // not the member: the loop is what all the time is spent in
    for (const std::int32_t row : rows) {
      const auto at = static_cast<std::uint32_t>(row);
      const std::uint64_t word = words[at / 64], bit = std::uint64_t{1} << at % 64;
      size += (word & bit) == 0 ? 1 : 0;
      words[at / 64] = word | bit;
    }
    size_ = size;
  }

  // Their number is to be counted once all such are in.
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

  // How many that is, itself among them; no less than `least`, which is known to be met.
  std::int64_t most_met(std::int64_t least) {
    std::int64_t best = least;
    for (const candidate& each : candidates(rows_, degrees_)) {
      if (std::min(each.bound, rows_.rows()) <= best) break;
      best = std::max(best, met_by(each, best));
      if (!exact_) break;
    }
    return best;
  }

  bool exact() const { return exact_; }

 private:
  // A column of so many rows that their bits are looked at faster than their list.
  bool is_hot(std::size_t column) const { return degrees_[column] > rows_.rows() / 16; }

  std::vector<std::uint64_t> bits_of(std::size_t column) const {
    union_of_rows all{rows_.rows()};
    all.add(touching_.of(column));
    return all.words();
  }

  // How many rows it meets; too few where that cannot be more than `best`, or the budget is used up.
  std::int64_t met_by(const candidate& each, std::int64_t best) {
    const auto row = row_.take(rows_, std::array{std::int64_t{each.row}}).front();
    std::int64_t left = each.bound;
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
  sparsity found;
  for (std::int64_t index = 0; index < rows.rows(); ++index) found.omega = std::max(found.omega, rows.at(index).count);
  const std::vector<std::int64_t> degrees = touches(rows);
  const std::int64_t hottest = degrees.empty() ? 0 : *std::max_element(degrees.begin(), degrees.end());
  // The rows of the hottest column meet each other: no less than that is met, and all that is said of sets whose
  // transpose would take more memory than the budget allows for.
  std::int64_t met = hottest;
  if (rows.nonzeros() > budget || rows.rows() > std::numeric_limits<std::int32_t>::max()) {
    found.rho_is_exact = hottest == rows.rows();
  } else {
    search all{rows, degrees, budget};
    met = all.most_met(hottest);
    found.rho_is_exact = all.exact();
  }
  const auto all = static_cast<double>(rows.rows());
  found.delta = static_cast<double>(hottest) / all;
  found.rho = static_cast<double>(met) / all;
  found.mean_nonzeros = static_cast<double>(rows.nonzeros()) / all;
  return found;
}

}  // namespace troupe::data
