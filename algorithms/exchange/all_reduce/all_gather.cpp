#include "troupe/algorithms/exchange/all_reduce/routes.hpp"

#include <utility>

namespace troupe::all_reduce {

namespace {

/// Gathers the whole contributions of all ranks and merges them for its own worker.
class all_gather_member final : public member {
 public:
  all_gather_member(member_options options, merge_rule merge)
      : options_(std::move(options)),
        merge_(merge),
        whole_{{{0, options_.layout.parameter_end}}, {0}},
        me_(static_cast<std::uint32_t>(options_.among.rank)),
        folds_(options_.among.world_size) {}

  void contribute(const part& own, outbox& out) override {
    const auto whole = cut(own, whole_, 0);
    for (std::uint32_t i = 1; i < options_.among.world_size; ++i)
      out.send(rank_id{(me_ + i) % options_.among.world_size}, whole);
    gather(whole, out);
  }

  void receive(const part& piece, outbox& out) override {
    rules::check_fits(piece, whole_.ranges);
    if (piece.at != stage::contribution || piece.origin.sender == options_.among.rank)
      throw exchange_error(errc::mismatch,
                           "an all-gather received a part that is not a contribution from another rank");
    gather(piece, out);
  }

  std::vector<rank_id> waiting_for(std::uint64_t step) const override { return folds_.missing(step); }

  std::int64_t largest_fold() const override { return whole_.largest() * options_.among.world_size; }

  void forget_before(std::uint64_t step) override { folds_.forget_before(step); }

 private:
  void gather(const part& piece, outbox& out) {
    auto& fold = folds_.add(piece);
    if (!fold.complete()) return;
    auto merged = merge_(fold.take_summands(), options_.pool);
    out.answer(rules::result_of(fold, piece, options_.among.rank, std::move(merged)));
  }

  member_options options_;
  merge_rule merge_;
  chunking whole_;
  std::uint32_t me_;
  rules::rank_folds folds_;
};

}  // namespace

std::unique_ptr<member> make_gathering_member(const member_options& options, merge_rule merge) {
  return std::make_unique<all_gather_member>(options, merge);
}

route all_gather() {
  return {
      .make_member = [](const member_options& options) { return make_gathering_member(options, rules::mean_in_order); },
      .list_messages =
          [](std::uint32_t n, const models::flat_layout& layout, const message_counter& count) {
            for (std::uint32_t from = 0; from < n; ++from)
              for (std::uint32_t i = 1; i < n; ++i) count(from, (from + i) % n, layout.parameter_end);
          }};
}

}  // namespace troupe::all_reduce
