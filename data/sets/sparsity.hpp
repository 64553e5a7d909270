// Sparsity of a data set in the numbers on which Hogwild's convergence depends: Niu, Recht, Ré, Wright 2011,
// "Hogwild!", section 2.1. Each row is a hyperedge e over the coordinates that it touches.
#pragma once

#include "troupe/data/formats/sparse_rows.hpp"

#include <cstdint>
#include <vector>

namespace troupe::data {

struct sparsity {
  std::int64_t omega{0};  ///< Ω = max over e of |e|: number of nonzeros of the longest row.
  double delta{0};        ///< Δ: largest share of the rows that touch one coordinate, in [0, 1].
  double rho{0};          ///< ρ: largest share of the rows that one row has a coordinate in common with, in [0, 1].
  /// Whether ρ is exact; otherwise it is a lower bound, because inspecting every row would have taken too long.
  bool rho_is_exact{true};
  double mean_nonzeros{0};  ///< Mean number of nonzeros per row.
};

/// Returns the sparsity of `rows`. Rows are inspected in descending order of how many others they could share
/// coordinates with, until no remaining row can be worse or `budget` nonzeros have been read.
sparsity sparsity_of(const sparse_rows& rows, std::int64_t budget = 200'000'000);

/// Returns, for each column, the number of rows that touch it.
std::vector<std::int64_t> touches(const sparse_rows& rows);

}  // namespace troupe::data
