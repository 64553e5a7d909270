#include "median.hpp"

#include <ATen/ATen.h>

using namespace troupe;

namespace {

/// The rule. Returns the median of each coordinate of n tensors [m], as a new tensor; for even n, the mean of the two
/// in the middle. NaN counts as larger than all numbers.
at::Tensor median(const std::vector<at::Tensor>& values) {
  const auto n = static_cast<std::int64_t>(values.size());
  const auto sorted = std::get<0>(at::sort(at::stack(values), 0));
  return (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
}

constexpr rank_id master{0};

/// One worker's side.
class median_member final : public member {
 public:
  explicit median_member(member_options options) : options_(std::move(options)), gathered_(options_.among.world_size) {}

  void contribute(const part& own, outbox& out) override {
    if (options_.among.rank != master) return out.send(master, own);
    gather(own, out);
  }

  void receive(const part& piece, outbox& out) override {
    rules::check_fits(piece, {{0, options_.layout.parameter_end}});
    const auto from = piece.origin.sender;
    if (options_.among.rank == master && from != master && piece.at == stage::contribution) return gather(piece, out);
    if (options_.among.rank != master && from == master && piece.at == stage::result) return out.answer(piece);
    throw exchange_error(errc::mismatch, "contributions go to the master of a median, and answers come from there");
  }

  std::vector<rank_id> waiting_for(std::uint64_t step) const override {
    return options_.among.rank == master ? gathered_.missing(step) : std::vector{master};
  }

  std::int64_t largest_fold() const override {
    return options_.among.rank == master ? options_.layout.parameter_end * options_.among.world_size : 0;
  }

  void forget_before(std::uint64_t step) override { gathered_.forget_before(step); }

 private:
  /// At the master: keeps a contribution, and when it is the last of its step sends the median to all.
  void gather(const part& piece, outbox& out) {
    auto& all = gathered_.add(piece);
    if (!all.complete()) return;
    const auto answer = rules::result_of(all, piece, master, median(all.take_values()));
    for (std::uint32_t rank = 1; rank < options_.among.world_size; ++rank) out.send(rank_id{rank}, answer);
    out.answer(answer);
  }

  member_options options_;
  rules::rank_folds gathered_;  ///< At the master: contributions by step and rank.
};

/// One message from each worker to the master, and one back.
std::vector<planned_edge> edges(std::uint32_t world_size, const models::flat_layout& layout, const setting_values&) {
  const auto bytes = static_cast<std::uint64_t>(layout.parameter_end) * sizeof(float);
  std::vector<planned_edge> all;
  for (std::uint32_t rank = 1; rank < world_size; ++rank)
    all.insert(all.end(), {{rank, 0, 1, bytes}, {0, rank, 1, bytes}});
  return all;
}

}  // namespace

exchange_kind median_kind() {
  return {.name = "median",
          .explanation = "gather at rank 0, take the median of each coordinate, send it to all",
          .source = "Yin et al. 2018, algorithm 1, option I",
          .make_member = [](const member_options& options) { return std::make_unique<median_member>(options); },
          .edges = edges};
}
