// Products of two thin matrices in place of a tensor: the arithmetic of PowerSGD. Sums are computed in a fixed order,
// so that results depend on nothing else.
//
// Source: Vogels, Karimireddy and Jaggi, "PowerSGD: Practical Low-Rank Gradient Compression for Distributed
// Optimization", NeurIPS 2019, Algorithm 1.
#pragma once

#include "troupe/models/storage/flat.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace troupe::low_rank {

/// A parameter of two or more dimensions as a matrix M [rows, columns], and its factors P [rows, rank] and Q [columns,
/// rank]. All are stored one after another in flat tensors: M by rows, P and Q by columns.
struct matrix {
  std::int64_t first{0};  ///< First element of M in the flat storage.
  std::int64_t rows{0}, columns{0}, rank{0};
  std::int64_t left{0};    ///< First element of P among the tensors of the first round.
  std::int64_t right{0};   ///< First element of Q among those of the second round.
  std::uint64_t index{0};  ///< Index of the parameter in the layout.
};

/// Values that are sent as they are, in the first round.
struct vector {
  std::int64_t first{0}, count{0};
  std::int64_t place{0};  ///< First element among the tensors of the first round.
};

/// What is sent in the two rounds of an exchange.
struct rounds {
  std::vector<matrix> matrices{};
  std::vector<vector> rest{};
  std::int64_t lefts{0};   ///< Number of elements of the first round.
  std::int64_t rights{0};  ///< Number of elements of the second round; 0 if there are no matrices.
};

/// Returns the rounds for matrices of at most this rank. A parameter with two or more dimensions is a matrix [first
/// dimension, others] if its factors have less than half of its elements; all others are sent as they are.
rounds rounds_of(const models::flat_layout& layout, std::int64_t rank);

/// Writes M·Q to P.
void multiply(const matrix& shape, const float* m, const float* q, float* p);

/// Makes the columns of P orthonormal by the modified Gram-Schmidt process, in float64. A column with a norm below
/// 1e-20 becomes zero.
void make_orthonormal(const matrix& shape, float* p);

/// Writes Mᵀ·P to Q.
void multiply_transposed(const matrix& shape, const float* m, const float* p, float* q);

/// Writes P·Qᵀ to M.
void expand(const matrix& shape, const float* p, const float* q, float* m);

}  // namespace troupe::low_rank
