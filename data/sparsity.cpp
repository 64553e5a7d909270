#include "troupe/data/sparsity.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace troupe::data {

namespace {

// By column, the rows that touch it: those of column v stand from begins[v] to begins[v + 1].
struct edges {
  std::vector<std::int64_t> begins;
  std::vector<std::int32_t> rows;
};

edges transposed(const sparse_rows& rows, const std::vector<std::int64_t>& degrees) {
  edges made{std::vector<std::int64_t>(degrees.size() + 1), {}};
  std::partial_sum(degrees.begin(), degrees.end(), made.begins.begin() + 1);
  made.rows.resize(static_cast<std::size_t>(rows.nonzeros()));
  std::vector<std::int64_t> next(made.begins.begin(), made.begins.end() - 1);
  for (std::int64_t index = 0; index < rows.rows(); ++index) {
    const auto row = rows.at(index);
    for (std::int64_t nonzero = 0; nonzero < row.count; ++nonzero) {
      made.rows[static_cast<std::size_t>(next[static_cast<std::size_t>(row.columns[nonzero])]++)] =
          static_cast<std::int32_t>(index);
    }
  }
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
  for (std::int64_t index = 0; index < rows.rows(); ++index) {
    const auto row = rows.at(index);
    std::int64_t bound = 0;
    for (std::int64_t nonzero = 0; nonzero < row.count; ++nonzero) {
      bound += degrees[static_cast<std::size_t>(row.columns[nonzero])];
    }
    all.push_back({bound, static_cast<std::int32_t>(index)});
  }
  std::sort(all.begin(), all.end(), [](const candidate& a, const candidate& b) {
    return a.bound != b.bound ? a.bound > b.bound : a.row < b.row;
  });
  return all;
}

// The most rows that one row meets, itself among them; no less than `least`, which is known to be met.
std::int64_t most_met(const sparse_rows& rows, const std::vector<std::int64_t>& degrees, std::int64_t least,
                      std::int64_t budget, bool& exact) {
  const edges touching = transposed(rows, degrees);
  std::vector<std::int32_t> seen_by(static_cast<std::size_t>(rows.rows()), -1);
  std::int64_t best = least;
  for (const candidate& each : candidates(rows, degrees)) {
    if (std::min(each.bound, rows.rows()) <= best) break;
    const auto row = rows.at(each.row);
    std::int64_t met = 0, left = each.bound;
    for (std::int64_t nonzero = 0; nonzero < row.count && met + left > best; ++nonzero) {
      const auto column = static_cast<std::size_t>(row.columns[nonzero]);
      if (budget < degrees[column]) {
        exact = false;
        return std::max(best, met);
      }
      budget -= degrees[column];
      left -= degrees[column];
      for (auto at = touching.begins[column]; at < touching.begins[column + 1]; ++at) {
        auto& seen = seen_by[static_cast<std::size_t>(touching.rows[static_cast<std::size_t>(at)])];
        met += seen != each.row ? 1 : 0;
        seen = each.row;
      }
    }
    best = std::max(best, met);
  }
  return best;
}

}  // namespace

std::vector<std::int64_t> touches(const sparse_rows& rows) {
  std::vector<std::int64_t> by_column(static_cast<std::size_t>(rows.columns()));
  for (std::int64_t index = 0; index < rows.rows(); ++index) {
    const auto row = rows.at(index);
    for (std::int64_t nonzero = 0; nonzero < row.count; ++nonzero) {
      ++by_column[static_cast<std::size_t>(row.columns[nonzero])];
    }
  }
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
    met = most_met(rows, degrees, hottest, budget, found.rho_is_exact);
  }
  const auto all = static_cast<double>(rows.rows());
  found.delta = static_cast<double>(hottest) / all;
  found.rho = static_cast<double>(met) / all;
  found.mean_nonzeros = static_cast<double>(rows.nonzeros()) / all;
  return found;
}

}  // namespace troupe::data
