#include "pairs.hpp"

#include <algorithm>
#include <map>
#include <numeric>

using namespace troupe;

std::vector<std::uint32_t> pairs_at(std::uint32_t workers, std::uint64_t seed, std::uint64_t step) {
  std::vector<std::int64_t> order(workers);
  std::iota(order.begin(), order.end(), 0);
  data::shuffle(order, data::keyed(seed, data::purpose::exchange, step));
  std::vector<std::uint32_t> partner(workers);
  for (std::uint32_t i = 0; i < workers; ++i) {
    const auto other = (i ^ 1u) < workers ? i ^ 1u : i;  // neighbours in the shuffled order: 0 and 1, 2 and 3, …
    partner[static_cast<std::size_t>(order[i])] = static_cast<std::uint32_t>(order[other]);
  }
  return partner;
}

namespace {

/// One worker's side.
class pair_member final : public member {
 public:
  explicit pair_member(member_options options) : options_(std::move(options)) {}

  void contribute(const part& own, outbox& out) override {
    const auto step = own.origin.step;
    const auto partner = partner_at(step);
    own_.emplace(step, own);
    if (partner == options_.among.rank) return out.answer(answer_of(own, own.piece.values));
    out.send(partner, own);
    answer_if_complete(step, out);
  }

  void receive(const part& piece, outbox& out) override {
    rules::check_fits(piece, {{0, options_.layout.parameter_end}});
    const auto step = piece.origin.step;
    if (piece.origin.sender == options_.among.rank || piece.origin.sender != partner_at(step))
      throw exchange_error(errc::mismatch, "parameters from a worker that is not this step's partner");
    if (!theirs_.emplace(step, piece).second)
      throw exchange_error(errc::stale, "the partner of this step sent its parameters twice");
    answer_if_complete(step, out);
  }

  std::vector<rank_id> waiting_for(std::uint64_t step) const override {
    std::vector<rank_id> missing;
    if (!own_.contains(step)) missing.push_back(options_.among.rank);
    if (partner_at(step) != options_.among.rank && !theirs_.contains(step)) missing.push_back(partner_at(step));
    return missing;
  }

  std::int64_t largest_fold() const override { return 2 * options_.layout.parameter_end; }

  void forget_before(std::uint64_t step) override {
    own_.erase(own_.begin(), own_.lower_bound(step));
    theirs_.erase(theirs_.begin(), theirs_.lower_bound(step));
  }

  /// A worker waits only for its partners, so others may be many exchanges ahead of this one. Each of them sends one
  /// part and then waits for its answer, so at most n parts are kept here.
  std::optional<std::uint64_t> steps_ahead() const override { return std::uint64_t{1} << 20; }

 private:
  rank_id partner_at(std::uint64_t step) const {
    return rank_id{
        pairs_at(options_.among.world_size, options_.seed, step).at(static_cast<std::uint32_t>(options_.among.rank))};
  }

  part answer_of(const part& own, at::Tensor values) const {
    part answer = own;
    answer.at = stage::result;
    answer.piece.values = std::move(values);
    return answer;
  }

  /// Both members of a pair add in the order of their ranks, so that they get the same bits.
  void answer_if_complete(std::uint64_t step, outbox& out) {
    const auto own = own_.find(step), theirs = theirs_.find(step);
    if (own == own_.end() || theirs == theirs_.end()) return;
    const auto own_first = options_.among.rank < theirs->second.origin.sender;
    const auto& first = own_first ? own->second : theirs->second;
    const auto& second = own_first ? theirs->second : own->second;
    out.answer(
        answer_of(own->second, rules::mean_in_order({{first.piece.values}, {second.piece.values}}, options_.pool)));
  }

  member_options options_;
  std::map<std::uint64_t, part> own_, theirs_;  ///< By step.
};

/// All edges that can occur. In each exchange a worker has one of n − 1 partners; if n is odd, one worker has none.
std::vector<planned_edge> edges(std::uint32_t world_size, const models::flat_layout& layout, const setting_values&) {
  const auto bytes = static_cast<std::uint64_t>(layout.parameter_end) * sizeof(float);
  const auto used = 1.0 / (world_size % 2 == 0 ? world_size - 1 : world_size);
  std::vector<planned_edge> all;
  for (std::uint32_t from = 0; from < world_size; ++from)
    for (std::uint32_t to = 0; to < world_size; ++to)
      if (from != to) all.push_back({from, to, 1, bytes, used});
  return all;
}

}  // namespace

exchange_kind random_pairs_kind() {
  return {.name = "random_pairs",
          .explanation = "pairs of workers, drawn anew for each exchange, average their parameters",
          .source = "Boyd et al. 2006, section II, in rounds of disjoint pairs",
          .carries = {{.sends = slot::parameters, .answers = slot::parameters}},
          .make_member = [](const member_options& options) { return std::make_unique<pair_member>(options); },
          .edges = edges,
          .nature = [](const setting_values&) { return exchange_nature{.same_for_all = false}; }};
}
