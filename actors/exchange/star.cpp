#include "troupe/actors/exchange/star.hpp"

#include "troupe/actors/exchange/member.hpp"
#include "troupe/actors/rules/reduce.hpp"
#include "troupe/actors/rules/shards.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

namespace {

constexpr rank_id master{0};

bool by_parameter(const setting_values& settings) {
  return std::get<std::string>(settings.at("send")) == "parameter";
}

/// What one message holds: everything, or one parameter with the padding behind it.
std::vector<range> pieces_of(const models::flat_layout& layout, const setting_values& settings) {
  if (!by_parameter(settings)) return {{0, layout.parameter_end}};
  return rules::parameter_shards(layout, static_cast<std::uint32_t>(layout.parameters.size()));
}

class star_member final : public member {
 public:
  explicit star_member(port_options options)
      : options_(std::move(options)),
        pieces_(pieces_of(options_.layout, options_.settings)),
        folds_(options_.world_size, pieces_.size()) {}

  void contribute(const part& own, outbox& out) override {
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      part piece = own;
      piece.which.part = static_cast<std::uint32_t>(i);
      piece.piece = {pieces_[i].first, own.piece.values.narrow(0, pieces_[i].first, pieces_[i].count)};
      if (options_.rank == master)
        gather(piece, out);
      else
        out.send(master, std::move(piece));
    }
  }

  void receive(const part& piece, outbox& out) override {
    rules::check_fits(piece, pieces_);
    if (options_.rank == master) {
      if (piece.at != stage::contribution || piece.origin.sender == master)
        throw exchange_error(errc::mismatch, "only contributions of others come to the master of a star");
      gather(piece, out);
    } else {
      if (piece.at != stage::result || piece.origin.sender != master)
        throw exchange_error(errc::mismatch, "only answers of the master come to a rank that is not the master");
      out.answer(piece);
    }
  }

  std::vector<rank_id> waiting_for(std::uint64_t step) const override {
    return options_.rank == master ? folds_.missing(step) : std::vector{master};
  }

  std::int64_t largest_fold() const override {
    std::int64_t most = 0;
    for (const auto& piece : pieces_) most = std::max(most, piece.count);
    return options_.rank == master ? most * options_.world_size : 0;
  }

  void forget_before(std::uint64_t step) override { folds_.forget_before(step); }

 private:
  /// At the master: keeps a contribution, and when it is the last of its piece sends the mean to all.
  void gather(const part& piece, outbox& out) {
    auto& fold = folds_.add(piece);
    if (!fold.complete()) return;
    const auto mean = rules::take_result(fold, piece, master, options_.pool);
    for (std::uint32_t rank = 1; rank < options_.world_size; ++rank) out.send(rank_id{rank}, mean);
    out.answer(mean);
  }

  port_options options_;
  std::vector<range> pieces_;
  rules::rank_folds folds_;  ///< At the master.
};

std::vector<planned_edge> star_edges(std::uint32_t world_size, const models::flat_layout& layout,
                                     const setting_values& settings) {
  const auto messages = static_cast<std::uint64_t>(pieces_of(layout, settings).size());
  const auto bytes = static_cast<std::uint64_t>(layout.parameter_end) * sizeof(float);
  std::vector<planned_edge> edges;
  for (std::uint32_t rank = 1; rank < world_size; ++rank) {
    edges.push_back({rank, 0, messages, bytes});
    edges.push_back({0, rank, messages, bytes});
  }
  return edges;
}

}  // namespace

exchange_kind star_kind() {
  return {
      .name = "star",
      .explanation = "gather at rank 0, fold in rank order, scatter the mean",
      .source = "textbook gather and scatter; with send = \"parameter\" in the manner of MPI_Isend and MPI_Irecv",
      .settings = {{.name = "send",
                    .type = setting_type::choice,
                    .default_text = "whole",
                    .explanation = "one message for the whole gradient, or one for each parameter, overlapping",
                    .choices = {"whole", "parameter"}}},
      .make_member = [](const port_options& options) { return std::make_unique<star_member>(options); },
      .edges = star_edges,
      .facts = {.equation = "each gets ḡ = Σ bᵢgᵢ / Σ bᵢ, folded in rank order; then x ← step(x, ḡ) at each",
                .picture = "w1   w2   w3\n"
                           "  ⇅   ⇅   ⇅    up: gᵢ of bᵢ samples; down: ḡ\n"
                           "      w0",
                .messages = "2(n − 1); send = \"parameter\": as many for each parameter",
                .bytes = "2(n − 1)P, all through rank 0",
                .synchronisation =
                    "all wait for rank 0, and it for all; send = \"parameter\": for each parameter by itself",
                .staleness = "0",
                .equals =
                    "one worker with the batches of all, to float tolerance; both ways to send and every route of "
                    "all_reduce but ring, bit for bit",
                .shown_by = "tests/parity/steps.py, tests/simulation/simulation_test.cpp, "
                            "tests/unit/actors/members_test.cpp, tests/cli/catalogue.py"},
  };
}

}  // namespace troupe
