#include "troupe/algorithms/exchange/around/low_rank.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace troupe::low_rank {

namespace {

/// Returns the sum of the products, in an order that lets compilers compute several at a time.
float dot(const float* a, const float* b, std::int64_t count) {
  constexpr std::int64_t lanes = 16;
  std::array<float, lanes> sums{};
  const auto whole = count - count % lanes;
  for (std::int64_t i = 0; i < whole; i += lanes)
    for (std::int64_t lane = 0; lane < lanes; ++lane) sums[static_cast<std::size_t>(lane)] += a[i + lane] * b[i + lane];
  for (auto i = whole; i < count; ++i) sums[static_cast<std::size_t>(i - whole)] += a[i] * b[i];
  for (auto half = sums.size() / 2; half > 0; half /= 2)
    for (std::size_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  return sums[0];
}

/// Adds a · x to y.
void add_scaled(float a, const float* x, std::int64_t count, float* y) {
  for (std::int64_t i = 0; i < count; ++i) y[i] += a * x[i];
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

rounds rounds_of(const models::flat_layout& layout, std::int64_t rank) {
  rounds result;
  for (std::size_t i = 0; i < layout.parameters.size(); ++i) {
    const auto& entry = layout.parameters[i];
    const auto rows = entry.shape.size() < 2 ? 0 : entry.shape.front();
    const auto columns = rows == 0 ? 0 : entry.count / rows;
    const auto least = std::min({rank, rows, columns});
    if (entry.count <= 2 * least * (rows + columns) || least == 0) {
      result.rest.push_back({.first = entry.first, .count = entry.count});
      continue;
    }
    result.matrices.push_back({.first = entry.first,
                               .rows = rows,
                               .columns = columns,
                               .rank = least,
                               .left = result.lefts,
                               .right = result.rights,
                               .index = i});
    result.lefts += rows * least;
    result.rights += columns * least;
  }
  for (auto& vector : result.rest) {
    vector.place = result.lefts;
    result.lefts += vector.count;
  }
  return result;
}

void multiply(const matrix& shape, const float* m, const float* q, float* p) {
  for (std::int64_t row = 0; row < shape.rows; ++row)
    for (std::int64_t k = 0; k < shape.rank; ++k)
      p[k * shape.rows + row] = dot(m + row * shape.columns, q + k * shape.columns, shape.columns);
}

void make_orthonormal(const matrix& shape, float* p) {
  std::vector<std::vector<double>> columns;
  for (std::int64_t k = 0; k < shape.rank; ++k) {
    auto* stored = p + k * shape.rows;
    std::vector<double> column(stored, stored + shape.rows);
    for (const auto& other : columns) {
      const auto along = dot(column, other);
      for (std::size_t i = 0; i < column.size(); ++i) column[i] -= along * other[i];
    }
    const auto norm = std::sqrt(dot(column, column));
    constexpr double smallest = 1e-20;
    for (auto& value : column) value = norm < smallest ? 0 : value / norm;
    std::transform(column.begin(), column.end(), stored, [](double value) { return static_cast<float>(value); });
    columns.push_back(std::move(column));
  }
}

void multiply_transposed(const matrix& shape, const float* m, const float* p, float* q) {
  std::fill_n(q, shape.columns * shape.rank, 0.0F);
  for (std::int64_t row = 0; row < shape.rows; ++row)
    for (std::int64_t k = 0; k < shape.rank; ++k)
      add_scaled(p[k * shape.rows + row], m + row * shape.columns, shape.columns, q + k * shape.columns);
}

void expand(const matrix& shape, const float* p, const float* q, float* m) {
  std::fill_n(m, shape.rows * shape.columns, 0.0F);
  for (std::int64_t row = 0; row < shape.rows; ++row)
    for (std::int64_t k = 0; k < shape.rank; ++k)
      add_scaled(p[k * shape.rows + row], q + k * shape.columns, shape.columns, m + row * shape.columns);
}

}  // namespace troupe::low_rank
