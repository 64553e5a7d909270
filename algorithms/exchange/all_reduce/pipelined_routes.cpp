#include "troupe/algorithms/exchange/all_reduce/routes.hpp"

#include <map>
#include <optional>
#include <set>
#include <utility>

namespace troupe::all_reduce {

namespace {

/// The way of one chunk: where its sum is after so many hops, and then its mean, which starts where the sum ends. The
/// mean goes back as the sum came (a chain), or onwards (a ring). Either visits every rank once.
struct way {
  std::uint32_t n{1};
  std::uint32_t first{0};  ///< Where the sum begins.
  bool back{false};

  std::uint32_t sum_at(std::uint32_t hop) const { return (first + hop) % n; }
  std::uint32_t mean_at(std::uint32_t hop) const { return (first + n - 1 + (back ? n - hop : hop)) % n; }
  std::uint32_t hop_of_sum(std::uint32_t rank) const { return (rank + n - first) % n; }
  std::uint32_t hop_of_mean(std::uint32_t rank) const {
    return back ? n - 1 - hop_of_sum(rank) : (hop_of_sum(rank) + 1) % n;
  }
};

/// A chain has one shard, whose way begins at rank 0 and goes back; shard j of a ring begins at rank j and goes on.
way way_of(std::uint32_t shard, std::uint32_t n, bool back) {
  return {.n = n, .first = shard, .back = back};
}

/// Adds its own to each sum that passes; the last on a chunk's way divides, and every rank hands the mean on.
class passing_member final : public member {
 public:
  passing_member(member_options options, bool back)
      : options_(std::move(options)),
        back_(back),
        chunks_(cut_in_chunks(options_, back ? 1 : options_.among.world_size)),
        me_(static_cast<std::uint32_t>(options_.among.rank)) {}

  void contribute(const part& own, outbox& out) override {
    auto& now = at(own.origin.step);
    if (now.own) throw exchange_error(errc::stale, "a rank contributed to the same step twice");
    now.own = own;
    for (std::uint32_t chunk = 0; chunk < chunks_.ranges.size(); ++chunk) {
      if (way_of(chunk).hop_of_sum(me_) == 0) {
        mark(now.summed, chunk);
        add_own(now, chunk, nullptr, out);
      } else if (const auto early = now.early.find(chunk); early != now.early.end()) {
        add_own(now, chunk, &early->second, out);
      }
    }
    now.early.clear();
  }

  void receive(const part& piece, outbox& out) override {
    rules::check_fits(piece, chunks_.ranges);
    auto& now = at(piece.origin.step);
    const auto chunk = piece.which.part;
    const auto way = way_of(chunk);
    if (piece.at == stage::partial) {
      const auto hop = way.hop_of_sum(me_);
      if (hop == 0 || piece.origin.sender != rank_id{way.sum_at(hop - 1)})
        throw exchange_error(errc::mismatch, "received a sum from a rank that does not precede this one on the route");
      mark(now.summed, chunk);
      if (now.own)
        add_own(now, chunk, &piece, out);
      else
        now.early.emplace(chunk, piece);
    } else {
      const auto hop = way.hop_of_mean(me_);
      if (piece.at != stage::result || hop == 0 || piece.origin.sender != rank_id{way.mean_at(hop - 1)} || !now.own ||
          !now.summed[chunk])
        throw exchange_error(
            errc::mismatch,
            "received a part from a rank that can send neither a contribution nor the mean of this chunk now");
      hand_on(now, piece, out);
    }
  }

  std::vector<rank_id> waiting_for(std::uint64_t step) const override {
    const auto found = steps_.find(step);
    if (found == steps_.end() || !found->second.own) return {options_.among.rank};
    std::set<std::uint32_t> ranks;
    for (std::uint32_t chunk = 0; chunk < chunks_.ranges.size(); ++chunk) {
      const auto way = way_of(chunk);
      if (!found->second.summed[chunk])
        ranks.insert(way.sum_at(way.hop_of_sum(me_) - 1));
      else if (!found->second.answered[chunk])
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
    std::map<std::uint32_t, part> early;  ///< By chunk: sums that came before `own`.
    std::vector<bool> summed, answered;   ///< By chunk: its sum has come (or begins here), its mean has.
  };

  way way_of(std::uint32_t chunk) const {
    return all_reduce::way_of(chunks_.shards[chunk], options_.among.world_size, back_);
  }

  progress& at(std::uint64_t step) {
    const std::vector<bool> none(chunks_.ranges.size());
    return steps_.try_emplace(step, progress{.own = {}, .early = {}, .summed = none, .answered = none}).first->second;
  }

  /// Adds the own chunk to the sum of the ranks before, if any, and sends it on, or round as the mean if it is
  /// complete.
  void add_own(progress& now, std::uint32_t chunk, const part* before, outbox& out) {
    const auto way = way_of(chunk);
    const auto hop = way.hop_of_sum(me_);
    auto sum = cut(*now.own, chunks_, chunk);
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
      hand_on(now, std::move(sum), out);
    }
  }

  /// Gives the mean of a chunk to the own worker and to the next rank on its way.
  void hand_on(progress& now, part mean, outbox& out) {
    const auto way = way_of(mean.which.part);
    const auto hop = way.hop_of_mean(me_);
    mark(now.answered, mean.which.part);
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

void list_messages(std::uint32_t n, std::int64_t total, bool back, const message_counter& count) {
  std::uint32_t shard = 0;
  for (const auto& range : rules::even_ranges(total, back ? 1 : n)) {
    const auto way = way_of(shard++, n, back);
    for (std::uint32_t hop = 0; hop + 1 < n; ++hop) {
      count(way.sum_at(hop), way.sum_at(hop + 1), range.count);
      count(way.mean_at(hop), way.mean_at(hop + 1), range.count);
    }
  }
}

}  // namespace

route chain() {
  return {.make_member = [](const member_options& options) -> std::unique_ptr<member> {
            return std::make_unique<passing_member>(options, true);
          },
          .list_messages = [](auto n, auto total, const auto& count) { list_messages(n, total, true, count); }};
}

route ring() {
  return {.make_member = [](const member_options& options) -> std::unique_ptr<member> {
            return std::make_unique<passing_member>(options, false);
          },
          .list_messages = [](auto n, auto total, const auto& count) { list_messages(n, total, false, count); }};
}

}  // namespace troupe::all_reduce
