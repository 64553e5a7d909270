// Mixing matrices of decentralised averaging: graphs, weights on them, and properties of both. Pure functions. Node i
// of n hears member j if W(i,j) > 0, and then xᵢ ← Σⱼ W(i,j) xⱼ. Parallel edges count as one, members hear themselves
// without an edge, and a graph of one member has no edges: W = [[1]].
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace troupe::rules {

/// Neighbours of each member: row i lists the other members that member i hears, ascending. All graphs here except the
/// exponential one are symmetric.
struct graph {
  std::vector<std::vector<std::uint32_t>> hears;  ///< By member.
};

/// Returns a ring: each member is joined to the next.
graph ring_graph(std::uint32_t n);

/// Returns a line: each member is joined to the next; the ends have one neighbour.
graph line_graph(std::uint32_t n);

/// Returns a torus of rings in rows and columns; the member in row r and column c is r · columns + c.
graph torus_graph(std::uint32_t rows, std::uint32_t columns);

/// Returns a star: member 0 is joined to every other member.
graph star_graph(std::uint32_t n);

/// Returns a complete graph.
graph complete_graph(std::uint32_t n);

/// Returns a directed graph in which member i hears (i − 2ᵏ) mod n for each 2ᵏ < n. Source: Ying et al. 2021,
/// "Exponential graph is provably efficient for decentralized deep training", §3.
graph exponential_graph(std::uint32_t n);

/// Returns whether a simple connected graph exists in which every member has `degree` neighbours.
bool has_regular_graph(std::uint32_t n, std::uint32_t degree);

/// Returns a connected graph in which every member has `degree` neighbours, as a function of the arguments alone.
/// Requires has_regular_graph. The graph is made from a circulant graph by random switches of two edges, ten per edge,
/// and more until it is connected.
graph random_regular_graph(std::uint32_t n, std::uint32_t degree, std::uint64_t seed);

/// Returns the graph with these edges between pairs of different members below n.
graph graph_of_edges(std::uint32_t n, const std::vector<std::pair<std::uint32_t, std::uint32_t>>& edges);

/// Returns two members that hear different numbers of others, or nothing if the graph is regular.
std::optional<std::pair<std::uint32_t, std::uint32_t>> unequal_members(const graph& wires);

/// A non-zero entry of a row of W.
struct neighbour {
  std::uint32_t index{0};  ///< Column, a member.
  double weight{0};        ///< Positive weight.
};

/// Sparse matrix W, [n, n]: row i lists the members that i averages, ascending, including i if it has a weight.
struct mixing_matrix {
  std::vector<std::vector<neighbour>> rows;  ///< By member.
};

/// Returns W(i,j) = 1 / (1 + max(dᵢ, dⱼ)) on edges, with the rest of each row on the diagonal (Xiao, Boyd and Lall
/// 2006, "Distributed average consensus with time-varying Metropolis weights"). The bits equal those of uniform_weights
/// on a regular graph.
mixing_matrix metropolis_weights(const graph& wires);

/// Returns W(i,j) = 1 / (1 + dᵢ) on edges and the diagonal. Doubly stochastic on regular graphs only.
mixing_matrix uniform_weights(const graph& wires);

/// Returns W as given, [n, n], with entries of at least 0.
mixing_matrix matrix_of(const std::vector<std::vector<double>>& rows);

/// Returns the graph of W: which member hears which.
graph graph_of(const mixing_matrix& mixing);

/// A row or column of W that does not sum to 1.
struct uneven_sum {
  bool of_row{true};       ///< Whether it is a row.
  std::uint32_t index{0};  ///< Number of the row or column, from 0.
  double sum{0};           ///< Its sum.
};

/// What must sum to 1: rows and columns, so that all members reach the mean of their values; or columns alone, which
/// keeps the sum of all values, as push-sum requires.
enum class stochastic : std::uint8_t { doubly, by_column };

/// Returns a row or column that must sum to 1 ± 1e-6 and does not, or nothing if there is none.
std::optional<uneven_sum> first_uneven(const mixing_matrix& mixing, stochastic which = stochastic::doubly);

/// Returns members (j, i) such that nothing of j ever reaches i, or nothing if the graph is (strongly) connected.
std::optional<std::pair<std::uint32_t, std::uint32_t>> unconnected_members(const graph& wires);

/// Returns the greatest common divisor of the lengths of all cycles of W's graph, where a weight on the diagonal is a
/// cycle of length 1; 1 for one member. W must be connected. If the period p exceeds 1, W has p eigenvalues of absolute
/// value 1 (a gap of 0): values only circulate, and the members never agree.
std::uint32_t period_of(const mixing_matrix& mixing);

/// Rate at which repeated mixing brings all members to the mean of their values; W must be doubly stochastic. Source:
/// Xiao and Boyd 2004, "Fast linear iterations for distributed averaging": asymptotic and per-step convergence factor.
struct mixing_rates {
  /// 1 − |λ₂|, where λ₂ is the eigenvalue of W that is second largest in absolute value: after many exchanges, each one
  /// multiplies the distance to the mean by 1 − gap.
  double gap{1};
  /// σ₂, the largest singular value of W − 11ᵀ/n: the largest factor by which one exchange can multiply the distance to
  /// the mean. Equals 1 − gap if W is normal, for instance symmetric or circulant.
  double contraction{0};
};

/// Returns the rates of W: {1, 0} for one member, or nothing for more than 1024 members, where computing them would
/// take too long.
std::optional<mixing_rates> rates_of(const mixing_matrix& mixing);

}  // namespace troupe::rules
