#include "troupe/algorithms/rules/mixing_schedule.hpp"

#include "troupe/algorithms/rules/symmetry.hpp"
#include "troupe/algorithms/support/assert.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace troupe::rules {

namespace {

std::vector<std::vector<std::uint32_t>> hearers_under(const mixing_matrix& mixing) {
  std::vector<std::vector<std::uint32_t>> hearers(mixing.rows.size());
  for (std::uint32_t to = 0; to < mixing.rows.size(); ++to)
    for (const auto& heard : mixing.rows[to])
      if (heard.index != to) hearers[heard.index].push_back(to);
  return hearers;
}

bool have_one_symmetry(const std::vector<mixing_matrix>& period) {
  const auto first = columns_of_symmetry(period.front());
  return first && std::all_of(period.begin(), period.end(),
                              [&](const auto& mixing) { return columns_of_symmetry(mixing) == first; });
}

}  // namespace

mixing_schedule::mixing_schedule(std::vector<mixing_matrix> period)
    : period_(std::move(period)), is_symmetric_(have_one_symmetry(period_)) {
  for (const auto& mixing : period_) {
    TROUPE_ASSERT(mixing.rows.size() == period_.front().rows.size(), "all matrices have the same size");
    hearers_.push_back(hearers_under(mixing));
  }
}

rules::graph mixing_schedule::graph() const {
  if (constant()) return graph_of(period_.front());
  rules::graph wires;
  wires.hears.resize(nodes());
  for (const auto& [from, to, share] : hearings()) wires.hears[to].push_back(from);
  return wires;
}

std::vector<mixing_schedule::hearing> mixing_schedule::hearings() const {
  std::vector<hearing> all;
  if (constant()) {
    for (std::uint32_t from = 0; from < nodes(); ++from)
      for (const auto to : hearers_.front()[from]) all.push_back({from, to});
    return all;
  }
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> times;
  for (const auto& of_phase : hearers_)
    for (std::uint32_t from = 0; from < of_phase.size(); ++from)
      for (const auto to : of_phase[from]) ++times[{from, to}];
  for (const auto& [ends, count] : times)
    all.push_back({ends.first, ends.second, static_cast<double>(count) / static_cast<double>(period_.size())});
  return all;
}

std::size_t mixing_schedule::longest_row() const {
  std::size_t longest = 0;
  for (const auto& mixing : period_)
    for (const auto& row : mixing.rows) longest = std::max(longest, row.size());
  return longest;
}

/// Follows the news that `node` has not contributed to exchange k + 1, from each k of a period, until all whom it hears
/// have heard it. Until then they go on.
std::uint64_t mixing_schedule::ahead_of(std::uint32_t node) const {
  std::set<std::uint32_t> heard;
  for (std::uint64_t k = 0; k < period_.size(); ++k)
    for (const auto& its : row(node, k))
      if (its.index != node) heard.insert(its.index);
  std::uint64_t most = 1;
  for (std::uint64_t k = 0; k < period_.size(); ++k) {
    std::vector<bool> knows(nodes(), false);
    knows[node] = true;
    std::vector<std::uint32_t> informed{node};
    std::size_t missing = heard.size();
    std::size_t quiet = 0;  // exchanges in which nobody new has heard it
    for (std::uint64_t ahead = 0; missing > 0 && quiet < period_.size(); ++ahead) {
      std::vector<std::uint32_t> next;
      for (const auto from : informed)
        for (const auto to : hearers(from, k + 1 + ahead))
          if (!knows[to]) {
            knows[to] = true;
            next.push_back(to);
          }
      for (const auto to : next) missing -= heard.count(to);
      quiet = next.empty() ? quiet + 1 : 0;
      informed.insert(informed.end(), next.begin(), next.end());
      most = std::max(most, ahead + 1);
    }
  }
  return most;
}

mixing_matrix product_of_period(const mixing_schedule& schedule) {
  const auto n = schedule.nodes();
  std::vector<std::vector<double>> product(n, std::vector<double>(n));
  for (std::uint32_t i = 0; i < n; ++i) product[i][i] = 1;
  for (const auto& mixing : schedule.period()) {
    std::vector<std::vector<double>> next(n, std::vector<double>(n));
    for (std::uint32_t i = 0; i < n; ++i)
      for (const auto& heard : mixing.rows[i])
        for (std::uint32_t j = 0; j < n; ++j) next[i][j] += heard.weight * product[heard.index][j];
    product = std::move(next);
  }
  return matrix_of(product);
}

}  // namespace troupe::rules
