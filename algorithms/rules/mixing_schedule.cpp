#include "troupe/algorithms/rules/mixing_schedule.hpp"

#include "troupe/algorithms/rules/symmetry.hpp"
#include "troupe/algorithms/support/assert.hpp"

#include <algorithm>
#include <iterator>
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
  return first && std::all_of(std::next(period.begin()), period.end(),
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
  wires.hears.resize(members());
  for (const auto& [from, to, share] : hearings()) wires.hears[to].push_back(from);
  return wires;
}

std::vector<mixing_schedule::hearing> mixing_schedule::hearings() const {
  std::vector<hearing> all;
  if (constant()) {
    for (std::uint32_t from = 0; from < members(); ++from)
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

std::size_t mixing_schedule::longest_row(std::uint32_t member) const {
  std::size_t longest = 0;
  for (const auto& mixing : period_) longest = std::max(longest, mixing.rows[member].size());
  return longest;
}

std::vector<std::uint64_t> mixing_schedule::distances_from(std::uint32_t from, std::uint64_t k) const {
  const auto never = std::uint64_t{members()} * period_.size();
  std::vector<std::uint64_t> distances(members(), never);
  distances[from] = 0;
  std::vector<std::uint32_t> informed{from};
  for (std::uint64_t passed = 0, last_news = 0; passed < last_news + period_.size(); ++passed) {
    const auto before = informed.size();
    for (std::size_t i = 0; i < before; ++i)
      for (const auto to : hearers(informed[i], k + passed)) {
        if (distances[to] != never) continue;
        distances[to] = passed + 1;
        informed.push_back(to);
      }
    if (informed.size() > before) last_news = passed + 1;
  }
  return distances;
}

std::uint64_t mixing_schedule::ahead_of(std::uint32_t member) const {
  std::set<std::uint32_t> heard;
  for (const auto& mixing : period_)
    for (const auto& entry : mixing.rows[member])
      if (entry.index != member) heard.insert(entry.index);
  const auto hears_it = [&](std::uint32_t other) {
    const auto& hearers = hearers_.front()[member];
    return std::binary_search(hearers.begin(), hearers.end(), other);
  };
  if (constant() && std::all_of(heard.begin(), heard.end(), hears_it)) return 1;  // most graphs: no search needed
  std::uint64_t most = 1;
  for (std::uint64_t k = 0; k < period_.size(); ++k) {
    const auto distances = distances_from(member, k);
    for (const auto other : heard) most = std::max(most, distances[other]);
  }
  return most;
}

mixing_matrix product_of_period(const mixing_schedule& schedule) {
  const auto n = schedule.members();
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
