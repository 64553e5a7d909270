// Mixing that changes from one exchange to the next: W(k) for k = 0, 1, …, repeated after a period. Source: Koloskova
// et al. 2020, "A unified theory of decentralized SGD with changing topology and local updates".
#pragma once

#include "troupe/algorithms/rules/mixing.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe::rules {

/// The mixing matrices of all exchanges: those of one period, repeated.
class mixing_schedule {
 public:
  /// A member that hears another one in some of the exchanges.
  struct hearing {
    std::uint32_t from{0};  ///< The member that is heard.
    std::uint32_t to{0};    ///< The member that hears it.
    double share{1};        ///< Share of the exchanges, at most 1.
  };

  /// `period` are the matrices of one period, at least one, all [n, n].
  explicit mixing_schedule(std::vector<mixing_matrix> period);

  /// Returns the number of members, n.
  std::uint32_t members() const { return static_cast<std::uint32_t>(period_.front().rows.size()); }

  /// Returns the matrices of one period.
  const std::vector<mixing_matrix>& period() const { return period_; }

  /// Returns W if it is the same in each exchange, else null.
  const mixing_matrix* constant() const { return period_.size() == 1 ? &period_.front() : nullptr; }

  /// Returns what `member` averages in exchange k: a row of W(k).
  const std::vector<neighbour>& row(std::uint32_t member, std::uint64_t k) const {
    return period_[phase(k)].rows[member];
  }

  /// Returns the other members that hear `member` in exchange k, ascending.
  const std::vector<std::uint32_t>& hearers(std::uint32_t member, std::uint64_t k) const {
    return hearers_[phase(k)][member];
  }

  /// Returns the graph of all exchanges together.
  rules::graph graph() const;

  /// Returns all pairs of members of which one ever hears the other, by `from` and `to`.
  std::vector<hearing> hearings() const;

  /// Returns the largest number of members that `member` averages in an exchange.
  std::size_t longest_row(std::uint32_t member) const;

  /// Returns whether the graphs look the same from each member.
  bool is_symmetric() const { return is_symmetric_; }

  /// Returns, for each member, the number of exchanges from k on after which it has heard `from`, directly or through
  /// others; at least n · period if it never does.
  std::vector<std::uint64_t> distances_from(std::uint32_t from, std::uint64_t k) const;

  /// Returns how many exchanges the members that `member` hears can be ahead of it, at least 1: the largest number of
  /// exchanges until one of them has heard `member`, directly or through others.
  std::uint64_t ahead_of(std::uint32_t member) const;

 private:
  std::size_t phase(std::uint64_t k) const { return static_cast<std::size_t>(k % period_.size()); }

  std::vector<mixing_matrix> period_;
  std::vector<std::vector<std::vector<std::uint32_t>>> hearers_;  ///< By phase and member.
  bool is_symmetric_;
};

/// Returns the product of all matrices of a period, which determines how close it brings the members to each other;
/// for n ≤ 1024.
mixing_matrix product_of_period(const mixing_schedule& schedule);

}  // namespace troupe::rules
