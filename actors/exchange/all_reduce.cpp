#include "troupe/actors/exchange/all_reduce.hpp"

#include "troupe/actors/exchange/member.hpp"
#include "troupe/actors/rules/reduce.hpp"

#include <map>
#include <string>
#include <utility>

namespace troupe {

namespace {

using step_and_chunk = std::pair<std::uint64_t, std::uint32_t>;

bool is_ring(const setting_values& settings) {
  return std::get<std::string>(settings.at("route")) == "ring";
}

part cut(const part& whole, const rules::range& piece, std::uint32_t index) {
  part result = whole;
  result.which.part = index;
  result.piece = {piece.first, whole.piece.values.narrow(0, piece.first, piece.count)};
  return result;
}

/// Rank j owns shard j: gathers it from all, folds it, hands it to all.
class direct_member final : public member {
 public:
  explicit direct_member(port_options options)
      : options_(std::move(options)), shards_(rules::even_ranges(options_.layout.parameter_end, options_.world_size)) {}

  void contribute(const part& own, outbox& out) override {
    const auto me = static_cast<std::uint32_t>(options_.rank);
    for (std::uint32_t owner = 0; owner < shards_.size(); ++owner)
      if (owner != me) out.send(rank_id{owner}, cut(own, shards_[owner], owner));
    if (me < shards_.size()) gather(cut(own, shards_[me], me), out);
  }

  void receive(const part& piece, outbox& out) override {
    rules::check_fits(piece, shards_);
    if (piece.at == stage::partial) throw exchange_error(errc::mismatch, "a partial sum came to a direct all-reduce");
    if (piece.at == stage::contribution) {
      if (piece.which.part != static_cast<std::uint32_t>(options_.rank))
        throw exchange_error(errc::mismatch, "a shard came to a rank that does not own it");
      gather(piece, out);
    } else {
      answered_[piece.origin.step].push_back(rank_id{piece.which.part});
      out.answer(piece);
    }
  }

  std::vector<rank_id> waiting_for(std::uint64_t step) const override {
    std::vector<bool> waits(options_.world_size, false);
    for (std::uint32_t owner = 0; owner < shards_.size(); ++owner) waits[owner] = true;
    if (const auto done = answered_.find(step); done != answered_.end())
      for (const auto rank : done->second) waits[static_cast<std::size_t>(rank)] = false;
    const auto me = static_cast<std::size_t>(options_.rank);
    if (me < shards_.size()) waits[me] = false;
    if (const auto fold = folds_.find(step); fold != folds_.end())
      for (const auto rank : fold->second.missing()) waits[static_cast<std::size_t>(rank)] = true;
    std::vector<rank_id> ranks;
    for (std::uint32_t rank = 0; rank < waits.size(); ++rank)
      if (waits[rank]) ranks.push_back(rank_id{rank});
    return ranks;
  }

  void forget_before(std::uint64_t step) override {
    folds_.erase(folds_.begin(), folds_.lower_bound(step));
    answered_.erase(answered_.begin(), answered_.lower_bound(step));
  }

 private:
  void gather(const part& piece, outbox& out) {
    auto& fold = folds_.try_emplace(piece.origin.step, options_.world_size).first->second;
    fold.add(piece.origin.sender, piece.piece.values, piece.sample_count);
    if (!fold.complete()) return;
    part mean = piece;
    mean.origin.sender = options_.rank;
    mean.at = stage::result;
    mean.piece.values = fold.mean(options_.pool);
    mean.sample_count = fold.sample_count();
    for (std::uint32_t rank = 0; rank < options_.world_size; ++rank)
      if (rank_id{rank} != options_.rank) out.send(rank_id{rank}, mean);
    out.answer(mean);
  }

  port_options options_;
  std::vector<rules::range> shards_;
  std::map<std::uint64_t, rules::rank_fold> folds_;         ///< Of the own shard, by step.
  std::map<std::uint64_t, std::vector<rank_id>> answered_;  ///< Owners whose shard has come, by step.
};

/// Chunk c travels c → c+1 → … → c−1, each rank adding its own; the last divides and sends the mean round once more.
class ring_member final : public member {
 public:
  explicit ring_member(port_options options)
      : options_(std::move(options)),
        chunks_(rules::even_ranges(options_.layout.parameter_end, options_.world_size)),
        me_(static_cast<std::uint32_t>(options_.rank)) {}

  void contribute(const part& own, outbox& out) override {
    if (!own_.emplace(own.origin.step, own).second)
      throw exchange_error(errc::stale, "a rank contributed twice to one step");
    if (me_ < chunks_.size()) pass_on(own.origin.step, me_, std::nullopt, out);
    for (auto i = early_.lower_bound({own.origin.step, 0}); i != early_.end() && i->first.first == own.origin.step;) {
      pass_on(own.origin.step, i->first.second, i->second, out);
      i = early_.erase(i);
    }
  }

  void receive(const part& piece, outbox& out) override {
    rules::check_fits(piece, chunks_);
    if (piece.at == stage::contribution) throw exchange_error(errc::mismatch, "a contribution came to a ring");
    const auto step = piece.origin.step;
    if (piece.at == stage::result) {
      if (next() != last_rank_of(piece.which.part)) out.send(rank_id{next()}, piece);
      out.answer(piece);
    } else if (own_.contains(step)) {
      pass_on(step, piece.which.part, piece, out);
    } else if (!early_.emplace(step_and_chunk{step, piece.which.part}, piece).second) {
      throw exchange_error(errc::stale, "a chunk came twice in one step");
    }
  }

  std::vector<rank_id> waiting_for(std::uint64_t step) const override {
    if (!own_.contains(step)) return {options_.rank};
    return {rank_id{(me_ + options_.world_size - 1) % options_.world_size}};
  }

  void forget_before(std::uint64_t step) override {
    own_.erase(own_.begin(), own_.lower_bound(step));
    early_.erase(early_.begin(), early_.lower_bound({step, 0}));
  }

 private:
  std::uint32_t next() const { return (me_ + 1) % options_.world_size; }
  std::uint32_t last_rank_of(std::uint32_t chunk) const {
    return (chunk + options_.world_size - 1) % options_.world_size;
  }

  /// Adds the own chunk to what came from the left and sends it on, or round as the mean where it is complete.
  void pass_on(std::uint64_t step, std::uint32_t chunk, const std::optional<part>& so_far, outbox& out) {
    const auto& own = own_.at(step);
    part sum = cut(own, chunks_[chunk], chunk);
    sum.at = stage::partial;
    if (options_.world_size > 1) {
      sum.piece.values = rules::fold_next(so_far ? std::optional{so_far->piece.values} : std::nullopt,
                                          {sum.piece.values, static_cast<double>(own.sample_count)}, options_.pool);
      if (so_far) sum.sample_count += so_far->sample_count;
    }
    if (me_ != last_rank_of(chunk)) return out.send(rank_id{next()}, std::move(sum));
    sum.at = stage::result;
    if (options_.world_size > 1) {
      sum.piece.values = rules::divided(sum.piece.values, static_cast<double>(sum.sample_count), options_.pool);
      out.send(rank_id{next()}, sum);
    }
    out.answer(sum);
  }

  port_options options_;
  std::vector<rules::range> chunks_;
  std::uint32_t me_;
  std::map<std::uint64_t, part> own_;     ///< Own contribution, by step.
  std::map<step_and_chunk, part> early_;  ///< Partial sums that came before it.
};

std::vector<planned_edge> all_reduce_edges(std::uint32_t world_size, const models::flat_layout& layout,
                                           const setting_values& settings) {
  const auto chunks = rules::even_ranges(layout.parameter_end, world_size);
  const auto n = world_size;
  std::map<std::pair<std::uint32_t, std::uint32_t>, planned_edge> edges;
  const auto add = [&](std::uint32_t from, std::uint32_t to, std::size_t chunk) {
    auto& edge = edges.try_emplace({from, to}, planned_edge{from, to, 0, 0}).first->second;
    edge.messages += 1;
    edge.bytes += static_cast<std::uint64_t>(chunks[chunk].count) * sizeof(float);
  };
  for (std::uint32_t chunk = 0; chunk < chunks.size(); ++chunk) {
    for (std::uint32_t hop = 0; hop + 1 < n; ++hop) {
      if (is_ring(settings)) {
        add((chunk + hop) % n, (chunk + hop + 1) % n, chunk);      // sums, from rank `chunk` on
        add((chunk + n - 1 + hop) % n, (chunk + hop) % n, chunk);  // means, from the rank before it on
      } else {
        const auto other = (chunk + 1 + hop) % n;
        add(other, chunk, chunk);
        add(chunk, other, chunk);
      }
    }
  }
  std::vector<planned_edge> result;
  for (const auto& [ends, edge] : edges) result.push_back(edge);
  return result;
}

}  // namespace

exchange_kind all_reduce_kind() {
  return {
      .name = "all_reduce",
      .explanation = "everybody ends with the mean gradient of all, without a master",
      .source = "direct: reduce-scatter and all-gather, folded in rank order; ring: Patarasuk and Yuan 2009, section 3",
      .sends = {slot::gradient},
      .answers = slot::gradient,
      .synchronous = true,
      .settings = {{.name = "route",
                    .type = setting_type::choice,
                    .default_text = "auto",
                    .explanation = "how the sums travel: direct (what auto means) folds in rank order; ring is the "
                                   "textbook one, with bits of its own",
                    .choices = {"auto", "direct", "ring"}}},
      .make_member = [](const port_options& options) -> std::unique_ptr<member> {
        if (is_ring(options.settings)) return std::make_unique<ring_member>(options);
        return std::make_unique<direct_member>(options);
      },
      .edges = all_reduce_edges,
  };
}

}  // namespace troupe
