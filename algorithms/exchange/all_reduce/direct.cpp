#include "troupe/algorithms/exchange/all_reduce/routes.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace troupe::all_reduce {

namespace {

/// Rank j owns shard j: it gathers the shard's chunks from all ranks, folds each chunk as soon as it is complete, and
/// sends the mean to all.
class direct_member final : public member {
 public:
  explicit direct_member(member_options options)
      : options_(std::move(options)),
        chunks_(cut_in_chunks(options_, options_.among.world_size)),
        me_(static_cast<std::uint32_t>(options_.among.rank)) {
    const auto& shards = chunks_.shards;
    const auto first_of = [&](std::uint32_t shard) {
      return static_cast<std::uint32_t>(std::lower_bound(shards.begin(), shards.end(), shard) - shards.begin());
    };
    first_own_ = first_of(me_);
    own_count_ = first_of(me_ + 1) - first_own_;
    // To give all owners work at once, send the first chunk of each owner, starting with the next rank, then the second
    // chunk of each, and so on. The own chunks are last, since folding them would keep the other ranks waiting.
    const auto urgency = [&](std::uint32_t chunk) {
      const auto owner = shards[chunk];
      const auto distance = (owner + options_.among.world_size - me_) % options_.among.world_size;
      return std::tuple{owner == me_, chunk - first_of(owner), distance};
    };
    for (std::uint32_t chunk = 0; chunk < shards.size(); ++chunk) order_.push_back(chunk);
    std::sort(order_.begin(), order_.end(), [&](auto a, auto b) { return urgency(a) < urgency(b); });
  }

  void contribute(const part& own, outbox& out) override {
    auto& this_step = at(own.origin.step);
    if (std::exchange(this_step.contributed, true))
      throw exchange_error(errc::stale, "a rank contributed to the same step twice");
    for (const auto chunk : order_) {
      auto piece = cut(own, chunks_, chunk);
      if (chunks_.shards[chunk] == me_)
        gather(this_step, piece, out);
      else
        out.send(rank_id{chunks_.shards[chunk]}, std::move(piece));
    }
  }

  void receive(const part& piece, outbox& out) override {
    rules::check_fits(piece, chunks_.ranges);
    auto& this_step = at(piece.origin.step);
    const auto owner = rank_id{chunks_.shards[piece.which.part]};
    if (piece.at == stage::contribution) {
      if (owner != options_.among.rank || piece.origin.sender == owner)
        throw exchange_error(errc::mismatch,
                             "received a contribution to a chunk that this rank does not own, or from itself");
      gather(this_step, piece, out);
    } else {
      if (piece.at != stage::result || piece.origin.sender != owner || owner == options_.among.rank ||
          !this_step.contributed)
        throw exchange_error(errc::mismatch,
                             "a direct all-reduce received a part that the owner of the chunk cannot have sent");
      mark(this_step.answered, piece.which.part);
      out.answer(piece);
    }
  }

  std::vector<rank_id> waiting_for(std::uint64_t step) const override {
    const auto found = steps_.find(step);
    const auto this_step = found == steps_.end() ? blank() : found->second;
    std::vector<bool> waits(options_.among.world_size, false);
    waits[me_] = !this_step.contributed;
    for (const auto& fold : this_step.folds)
      for (const auto rank : fold.missing()) waits[static_cast<std::size_t>(rank)] = true;
    for (std::size_t chunk = 0; chunk < this_step.answered.size(); ++chunk)
      if (!this_step.answered[chunk] && chunks_.shards[chunk] != me_) waits[chunks_.shards[chunk]] = true;
    std::vector<rank_id> ranks;
    for (std::uint32_t rank = 0; rank < waits.size(); ++rank)
      if (waits[rank]) ranks.push_back(rank_id{rank});
    return ranks;
  }

  std::int64_t largest_fold() const override { return chunks_.largest() * options_.among.world_size; }

  void forget_before(std::uint64_t step) override { steps_.erase(steps_.begin(), steps_.lower_bound(step)); }

 private:
  struct progress {
    bool contributed{false};
    std::vector<rules::rank_fold> folds;  ///< Folds of the own chunks.
    std::vector<bool> answered;           ///< By chunk: whether another rank has sent its mean.
  };

  progress blank() const {
    return {.folds = std::vector<rules::rank_fold>(own_count_, rules::rank_fold{options_.among.world_size}),
            .answered = std::vector<bool>(chunks_.ranges.size())};
  }

  progress& at(std::uint64_t step) {
    const auto found = steps_.find(step);
    return found != steps_.end() ? found->second : steps_.emplace(step, blank()).first->second;
  }

  void gather(progress& this_step, const part& piece, outbox& out) {
    auto& fold = this_step.folds.at(piece.which.part - first_own_);
    fold.add(piece.origin.sender, piece.piece.values, piece.sample_count);
    if (!fold.complete()) return;
    const auto mean = rules::take_result(fold, piece, options_.among.rank, options_.pool);
    for (std::uint32_t i = 1; i < options_.among.world_size; ++i)
      out.send(rank_id{(me_ + i) % options_.among.world_size}, mean);
    out.answer(mean);
  }

  member_options options_;
  chunking chunks_;
  std::uint32_t me_;
  std::uint32_t first_own_{0}, own_count_{0};  ///< The chunks of the own shard.
  std::vector<std::uint32_t> order_;           ///< Chunks in the order in which they leave.
  std::map<std::uint64_t, progress> steps_;
};

}  // namespace

route direct() {
  return {.make_member = [](const member_options& options) -> std::unique_ptr<member> {
            return std::make_unique<direct_member>(options);
          },
          .list_messages =
              [](std::uint32_t n, const models::flat_layout& layout, const message_counter& count) {
                std::uint32_t owner = 0;
                for (const auto& shard : rules::even_ranges(layout.parameter_end, n, layout.cut_multiple)) {
                  for (std::uint32_t i = 1; i < n; ++i) {
                    count((owner + i) % n, owner, shard.count);
                    count(owner, (owner + i) % n, shard.count);
                  }
                  ++owner;
                }
              }};
}

}  // namespace troupe::all_reduce
