#include "troupe/algorithms/rules/symmetry.hpp"

#include <algorithm>
#include <complex>
#include <numbers>
#include <vector>

namespace troupe::rules {

namespace {

/// Returns whether each row of W is the first row, moved to its node on a torus with `columns` columns.
bool is_symmetric_on(const mixing_matrix& mixing, std::uint32_t columns) {
  const auto n = static_cast<std::uint32_t>(mixing.rows.size());
  const auto& first = mixing.rows.front();
  std::vector<neighbour> moved;
  for (std::uint32_t node = 1; node < n; ++node) {
    moved.clear();
    const auto row = node / columns, column = node % columns;
    for (const auto& entry : first)
      moved.push_back(
          {(entry.index / columns + row) % (n / columns) * columns + (entry.index % columns + column) % columns,
           entry.weight});
    std::sort(moved.begin(), moved.end(), [](const auto& a, const auto& b) { return a.index < b.index; });
    const auto same = [](const auto& a, const auto& b) { return a.index == b.index && a.weight == b.weight; };
    if (!std::equal(moved.begin(), moved.end(), mixing.rows[node].begin(), mixing.rows[node].end(), same)) return false;
  }
  return true;
}

}  // namespace

std::optional<std::uint32_t> columns_of_symmetry(const mixing_matrix& mixing) {
  const auto n = static_cast<std::uint32_t>(mixing.rows.size());
  if (n == 0) return std::nullopt;
  if (is_symmetric_on(mixing, n)) return n;
  for (const auto& entry : mixing.rows.front())  // on a torus, a neighbour of node 0 is the first node of the next row
    if (entry.index > 1 && n % entry.index == 0 && is_symmetric_on(mixing, entry.index)) return entry.index;
  return std::nullopt;
}

mixing_rates rates_by_symmetry(const mixing_matrix& mixing, std::uint32_t columns) {
  const auto n = static_cast<std::uint32_t>(mixing.rows.size()), rows = n / columns;
  double second = 0;
  for (std::uint32_t k = 1; k < n; ++k) {
    const std::uint64_t by_row = k / columns, by_column = k % columns;
    std::complex<double> value = 0;
    for (const auto& entry : mixing.rows.front()) {
      const auto turns = static_cast<double>(by_row * (entry.index / columns) % rows) / rows +
                         static_cast<double>(by_column * (entry.index % columns) % columns) / columns;
      value += std::polar(entry.weight, 2 * std::numbers::pi * turns);
    }
    second = std::max(second, std::abs(value));
  }
  return {.gap = 1 - second, .contraction = second};
}

}  // namespace troupe::rules
