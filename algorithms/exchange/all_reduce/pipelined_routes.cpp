#include "troupe/algorithms/exchange/all_reduce/routes.hpp"

#include <map>
#include <optional>
#include <set>
#include <utility>

namespace troupe::all_reduce {

namespace {

/// The path of one chunk. The partial sum visits every rank once, starting at `first`. The mean starts at the rank
/// where the sum is complete and travels back the same way (chain) or onwards (ring), again visiting every rank once.
struct way {
  std::uint32_t n{1};
  std::uint32_t first{0};  ///< Rank at which the sum begins.
  bool back{false};

  std::uint32_t sum_at(std::uint32_t hop) const { return (first + hop) % n; }
  std::uint32_t mean_at(std::uint32_t hop) const { return (first + n - 1 + (back ? n - hop : hop)) % n; }
  std::uint32_t hop_of_sum(std::uint32_t rank) const { return (rank + n - first) % n; }
  std::uint32_t hop_of_mean(std::uint32_t rank) const {
    return back ? n - 1 - hop_of_sum(rank) : (hop_of_sum(rank) + 1) % n;
  }
};

/// Returns the path of a shard's chunks. A chain has one shard, whose sum begins at rank 0 and whose mean travels back.
/// The sum of shard j of a ring begins at rank j, and the mean travels onwards.
way way_of(std::uint32_t shard, std::uint32_t n, bool back) {
  return {.n = n, .first = shard, .back = back};
}

/// Adds this rank's contribution to each partial sum that it forwards. The last rank on a chunk's path divides, and all
/// ranks forward the mean.
class passing_member final : public member {
 public:
  passing_member(member_options options, bool back)
      : options_(std::move(options)),
        back_(back),
        chunks_(cut_in_chunks(options_, back ? 1 : options_.among.world_size)),
        me_(static_cast<std::uint32_t>(options_.among.rank)) {}

  void contribute(const part& own, outbox& out) override {
    auto& this_step = at(own.origin.step);
    if (this_step.own) throw exchange_error(errc::stale, "a rank contributed to the same step twice");
    this_step.own = own;
    for (std::uint32_t chunk = 0; chunk < chunks_.ranges.size(); ++chunk) {
      if (way_of(chunk).hop_of_sum(me_) == 0) {
        mark(this_step.summed, chunk);
        add_own(this_step, chunk, nullptr, out);
      } else if (const auto early = this_step.early.find(chunk); early != this_step.early.end()) {
        add_own(this_step, chunk, &early->second, out);
      }
    }
    this_step.early.clear();
  }

  void receive(const part& piece, outbox& out) override {
    rules::check_fits(piece, chunks_.ranges);
    auto& this_step = at(piece.origin.step);
    const auto chunk = piece.which.part;
    const auto way = way_of(chunk);
    if (piece.at == stage::partial) {
      const auto hop = way.hop_of_sum(me_);
      if (hop == 0 || piece.origin.sender != rank_id{way.sum_at(hop - 1)})
        throw exchange_error(errc::mismatch, "received a sum from a rank that does not precede this one on the route");
      mark(this_step.summed, chunk);
      if (this_step.own)
        add_own(this_step, chunk, &piece, out);
      else
        this_step.early.emplace(chunk, piece);
    } else {
      const auto hop = way.hop_of_mean(me_);
      if (piece.at != stage::result || hop == 0 || piece.origin.sender != rank_id{way.mean_at(hop - 1)} ||
          !this_step.own || !this_step.summed[chunk])
        throw exchange_error(
            errc::mismatch,
            "received a part from a rank that can send neither a contribution nor the mean of this chunk now");
      hand_on(this_step, piece, out);
    }
  }

  std::vector<rank_id> waiting_for(std::uint64_t step) const override {
    const auto this_step = steps_.find(step);
    if (this_step == steps_.end() || !this_step->second.own) return {options_.among.rank};
    std::set<std::uint32_t> ranks;
    for (std::uint32_t chunk = 0; chunk < chunks_.ranges.size(); ++chunk) {
      const auto way = way_of(chunk);
      if (!this_step->second.summed[chunk])
        ranks.insert(way.sum_at(way.hop_of_sum(me_) - 1));
      else if (!this_step->second.answered[chunk])
        ranks.insert(way.mean_at(way.hop_of_mean(me_) - 1));
    }
    std::vector<rank_id> result;
    for (const auto rank : ranks) result.push_back(rank_id{rank});
    return result;
  }

  std::int64_t largest_fold() const override { return 2 * chunks_.largest(); }

  void forget_before(std::uint64_t step) override { steps_.erase(steps_.begin(), steps_.lower_bound(step)); }

 private:
  struct progress {
    std::optional<part> own;
    std::map<std::uint32_t, part> early;  ///< By chunk: sums that arrived before `own`.
    /// By chunk: whether its sum has arrived (or begins here), and whether its mean has.
    std::vector<bool> summed, answered;
  };

  way way_of(std::uint32_t chunk) const {
    return all_reduce::way_of(chunks_.shards[chunk], options_.among.world_size, back_);
  }

  progress& at(std::uint64_t step) {
    const std::vector<bool> none(chunks_.ranges.size());
    return steps_.try_emplace(step, progress{.own = {}, .early = {}, .summed = none, .answered = none}).first->second;
  }

  /// Adds the own chunk to the sum of the preceding ranks, if any. Forwards the sum or, if it is complete, passes on
  /// the mean.
  void add_own(progress& this_step, std::uint32_t chunk, const part* before, outbox& out) {
    const auto way = way_of(chunk);
    const auto hop = way.hop_of_sum(me_);
    auto sum = cut(*this_step.own, chunks_, chunk);
    const rules::weighted own{sum.piece.values, static_cast<double>(sum.sample_count)};
    if (before) sum.sample_count += before->sample_count;
    if (hop + 1 < way.n) {
      sum.at = stage::partial;
      sum.piece.values =
          rules::fold_next(before ? std::optional{before->piece.values} : std::nullopt, own, options_.pool);
      out.send(rank_id{way.sum_at(hop + 1)}, std::move(sum));
    } else {
      if (before)
        sum.piece.values =
            rules::fold_last(before->piece.values, own, static_cast<double>(sum.sample_count), options_.pool);
      hand_on(this_step, std::move(sum), out);
    }
  }

  /// Passes the mean of a chunk to the own worker and to the next rank on its path.
  void hand_on(progress& this_step, part mean, outbox& out) {
    const auto way = way_of(mean.which.part);
    const auto hop = way.hop_of_mean(me_);
    mark(this_step.answered, mean.which.part);
    mean.origin.sender = options_.among.rank;
    mean.at = stage::result;
    if (hop + 1 < way.n) out.send(rank_id{way.mean_at(hop + 1)}, mean);
    out.answer(mean);
  }

  member_options options_;
  bool back_;
  chunking chunks_;
  std::uint32_t me_;
  std::map<std::uint64_t, progress> steps_;
};

void list_messages(std::uint32_t n, const models::flat_layout& layout, bool back, const message_counter& count) {
  std::uint32_t shard = 0;
  for (const auto& range : rules::even_ranges(layout.parameter_end, back ? 1 : n, layout.cut_multiple)) {
    const auto way = way_of(shard++, n, back);
    for (std::uint32_t hop = 0; hop + 1 < n; ++hop) {
      count(way.sum_at(hop), way.sum_at(hop + 1), range.count);
      count(way.mean_at(hop), way.mean_at(hop + 1), range.count);
    }
  }
}

}  // namespace

route chain() {
  return {
      .make_member = [](const member_options& options) -> std::unique_ptr<member> {
        return std::make_unique<passing_member>(options, true);
      },
      .list_messages = [](auto n, const auto& layout, const auto& count) { list_messages(n, layout, true, count); }};
}

route ring() {
  return {
      .make_member = [](const member_options& options) -> std::unique_ptr<member> {
        return std::make_unique<passing_member>(options, false);
      },
      .list_messages = [](auto n, const auto& layout, const auto& count) { list_messages(n, layout, false, count); }};
}

}  // namespace troupe::all_reduce
