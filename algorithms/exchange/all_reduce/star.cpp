#include "troupe/algorithms/exchange/all_reduce/star.hpp"

#include "troupe/algorithms/exchange/around/buckets.hpp"
#include "troupe/algorithms/exchange/member.hpp"
#include "troupe/algorithms/rules/reduce.hpp"

#include <utility>

namespace troupe {

namespace {

constexpr rank_id master{0};

class star_member final : public member {
 public:
  explicit star_member(member_options options) : options_(std::move(options)), folds_(options_.among.world_size) {}

  void contribute(const part& own, outbox& out) override {
    if (options_.among.rank == master)
      gather(own, out);
    else
      out.send(master, own);
  }

  void receive(const part& piece, outbox& out) override {
    rules::check_fits(piece, {{0, options_.layout.parameter_end}});
    if (options_.among.rank == master) {
      if (piece.at != stage::contribution || piece.origin.sender == master)
        throw exchange_error(errc::mismatch,
                             "the master of a star received a part that is not a contribution from another rank");
      gather(piece, out);
    } else {
      if (piece.at != stage::result || piece.origin.sender != master)
        throw exchange_error(errc::mismatch, "a rank of a star received a part that is not an answer from the master");
      out.answer(piece);
    }
  }

  std::vector<rank_id> waiting_for(std::uint64_t step) const override {
    return options_.among.rank == master ? folds_.missing(step) : std::vector{master};
  }

  std::int64_t largest_fold() const override {
    return options_.among.rank == master ? options_.layout.parameter_end * options_.among.world_size : 0;
  }

  void forget_before(std::uint64_t step) override { folds_.forget_before(step); }

 private:
  /// Master only: keeps a contribution; after the last one, sends the mean to all.
  void gather(const part& piece, outbox& out) {
    auto& fold = folds_.add(piece);
    if (!fold.complete()) return;
    const auto mean = rules::take_result(fold, piece, master, options_.pool);
    for (std::uint32_t rank = 1; rank < options_.among.world_size; ++rank) out.send(rank_id{rank}, mean);
    out.answer(mean);
  }

  member_options options_;
  rules::rank_folds folds_;  ///< Used only by the master.
};

std::vector<planned_edge> star_edges(std::uint32_t world_size, const models::flat_layout& layout,
                                     const setting_values&) {
  const auto bytes = static_cast<std::uint64_t>(layout.parameter_end) * sizeof(float);
  std::vector<planned_edge> edges;
  for (std::uint32_t rank = 1; rank < world_size; ++rank) {
    edges.push_back({rank, 0, 1, bytes});
    edges.push_back({.from = 0, .to = rank, .messages = 1, .bytes = bytes, .holds = edge_holds::answers});
  }
  return edges;
}

}  // namespace

exchange_kind star_kind() {
  return {
      .name = "star",
      .explanation = "Rank 0 gathers the gradients, adds them in rank order and sends the mean back to all workers.",
      .source = "textbook gather and scatter; with send = \"parameter\", in the manner of MPI_Isend and MPI_Irecv",
      .settings = with_send_settings({}),
      .make_member = [](const member_options& options) { return std::make_unique<star_member>(options); },
      .edges = star_edges,
  };
}

}  // namespace troupe
