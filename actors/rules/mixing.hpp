// Mixing matrices of decentralised averaging: graphs, weights on them, and what can be said of both. Pure functions.
// Node i of n hears node j where W(i,j) > 0, and then xᵢ ← Σⱼ W(i,j) xⱼ. Parallel edges count as one, nodes hear
// themselves without an edge, and a graph of one node has no edges: W = [[1]].
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace troupe::rules {

/// Who hears whom: row i lists the others whom node i hears, ascending. All graphs here but the exponential one are
/// symmetric.
struct graph {
  std::vector<std::vector<std::uint32_t>> hears;
};

/// Every node and the next, in a circle.
graph ring_graph(std::uint32_t n);

/// Every node and the next; the ends have one neighbour.
graph line_graph(std::uint32_t n);

/// Rows and columns of rings; the node in row r and column c is r · columns + c.
graph torus_graph(std::uint32_t rows, std::uint32_t columns);

/// Node 0 and every other.
graph star_graph(std::uint32_t n);

/// Every node and every other.
graph complete_graph(std::uint32_t n);

/// Directed: node i hears (i − 2ᵏ) mod n for each 2ᵏ < n. Source: Ying et al. 2021, "Exponential graph is provably
/// efficient for decentralized deep training", §3.
graph exponential_graph(std::uint32_t n);

/// Says whether a simple connected graph exists in which every node has `degree` neighbours.
bool has_regular_graph(std::uint32_t n, std::uint32_t degree);

/// A connected graph in which every node has `degree` neighbours, a function of the arguments alone; asks for
/// has_regular_graph. Made from a circulant graph by random switches of two edges, ten for each edge, and more until it
/// is connected.
graph random_regular_graph(std::uint32_t n, std::uint32_t degree, std::uint64_t seed);

/// Edges between pairs of different nodes below n.
graph graph_of_edges(std::uint32_t n, const std::vector<std::pair<std::uint32_t, std::uint32_t>>& edges);

/// Returns two nodes that hear different numbers of others, or nothing where the graph is regular.
std::optional<std::pair<std::uint32_t, std::uint32_t>> unequal_nodes(const graph& wires);

/// An entry of a row of W that is not 0.
struct neighbour {
  std::uint32_t index{0};
  double weight{0};  ///< Above 0.
};

/// W, [n, n], sparse: row i has the nodes that i averages, ascending, itself among them where it has a weight.
struct mixing_matrix {
  std::vector<std::vector<neighbour>> rows;
};

/// W(i,j) = 1 / (1 + max(dᵢ, dⱼ)) on edges, the rest of each row on the diagonal (Xiao, Boyd and Lall 2006,
/// "Distributed average consensus with time-varying Metropolis weights"). The same bits as uniform_weights on a regular
/// graph.
mixing_matrix metropolis_weights(const graph& wires);

/// W(i,j) = 1 / (1 + dᵢ) on edges and the diagonal. Doubly stochastic on regular graphs only.
mixing_matrix uniform_weights(const graph& wires);

/// W as it is written, [n, n], entries of at least 0.
mixing_matrix matrix_of(const std::vector<std::vector<double>>& rows);

/// Returns who hears whom under W.
graph graph_of(const mixing_matrix& mixing);

/// A row or column of W that does not sum to 1.
struct uneven_sum {
  bool of_row{true};
  std::uint32_t index{0};
  double sum{0};
};

/// Returns a row or column that does not sum to 1 ± 1e-6; nothing where W is doubly stochastic.
std::optional<uneven_sum> first_uneven(const mixing_matrix& mixing);

/// Returns nodes (j, i) such that nothing of j ever comes to i, or nothing where all is (strongly) connected.
std::optional<std::pair<std::uint32_t, std::uint32_t>> unconnected_nodes(const graph& wires);

/// Returns for each node after how many exchanges it has heard, by way of others, of `from`; n where never.
std::vector<std::uint32_t> distances_from(const graph& wires, std::uint32_t from);

/// Returns the greatest common divisor of the lengths of all cycles of W's graph, where an own weight is a cycle of
/// length 1; 1 for one node. W must be connected. If the period p exceeds 1, W has p eigenvalues of absolute value 1 (a
/// gap of 0): values only circulate, and the nodes never agree.
std::uint32_t period_of(const mixing_matrix& mixing);

/// How fast repeated mixing brings all nodes to the mean of their values; W must be doubly stochastic. Source: Xiao and
/// Boyd 2004, "Fast linear iterations for distributed averaging": asymptotic and per-step convergence factor.
struct mixing_rates {
  /// 1 − |λ₂|, where λ₂ is the eigenvalue of W that is second largest in absolute value: after many exchanges, each one
  /// multiplies the distance to the mean by 1 − gap.
  double gap{1};
  /// σ₂, the largest singular value of W − 11ᵀ/n: no exchange multiplies the distance to the mean by more. Equals
  /// 1 − gap where W is normal, for instance symmetric or circulant.
  double contraction{0};
};

/// Returns the rates of W: {1, 0} for one node, nothing beyond 1024 nodes, where computing them would take too long.
std::optional<mixing_rates> rates_of(const mixing_matrix& mixing);

}  // namespace troupe::rules
