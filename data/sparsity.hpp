// How sparse a data set is, in the numbers that Hogwild's convergence depends on: Niu, Recht, Ré, Wright 2011,
// "Hogwild!", section 2.1. Each row is a hyperedge e over the coordinates that it touches.
#pragma once

#include "troupe/data/sparse_rows.hpp"

#include <cstdint>
#include <vector>

namespace troupe::data {

struct sparsity {
  std::int64_t omega{0};    ///< Ω = max over e of |e|: nonzeros of the longest row.
  double delta{0};          ///< Δ: largest share of the rows that touch one coordinate, in [0, 1].
  double rho{0};            ///< ρ: largest share of the rows that one row has a coordinate in common with, in [0, 1].
  bool rho_is_exact{true};  ///< Else ρ is at least so large: looking at every row would have taken too long.
  double mean_nonzeros{0};  ///< Of a row.
};

/// Returns the three of them. Rows are looked at in descending order of how many others they could meet, until none
/// that is left can be worse or `budget` nonzeros were looked at.
sparsity sparsity_of(const sparse_rows& rows, std::int64_t budget = 200'000'000);

/// Returns, by column, how many rows touch it.
std::vector<std::int64_t> touches(const sparse_rows& rows);

}  // namespace troupe::data
