#include "troupe/algorithms/exchange/gossip/gossip.hpp"

#include "troupe/algorithms/exchange/chunks.hpp"
#include "troupe/algorithms/exchange/gossip/gossip_graph.hpp"
#include "troupe/algorithms/exchange/member.hpp"
#include "troupe/algorithms/rules/reduce.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace troupe {

namespace {

/// The mixing matrices, which all members share.
struct gossip_wiring final : common_facts {
  rules::mixing_schedule schedule;

  gossip_wiring(std::uint32_t members, const setting_values& settings)
      : schedule(mixing_of(names_by_index(members), settings)) {}

  const rules::mixing_schedule* mixing() const override { return &schedule; }

  /// Returns how many exchanges a member that `index` hears can be ahead of `index`.
  std::uint64_t ahead_of(std::uint32_t index) const {
    if (!schedule.is_symmetric()) return schedule.ahead_of(index);
    std::call_once(measured, [this] { ahead_of_each = schedule.ahead_of(0); });
    return ahead_of_each;
  }

 private:
  mutable std::once_flag measured;
  mutable std::uint64_t ahead_of_each{1};  ///< For graphs that look the same from each member.
};

std::shared_ptr<const gossip_wiring> wiring_of(const member_options& options) {
  if (auto common = std::dynamic_pointer_cast<const gossip_wiring>(options.common)) return common;
  return std::make_shared<const gossip_wiring>(options.among.world_size, options.settings);
}

class gossip_member final : public member {
 public:
  explicit gossip_member(member_options options)
      : options_(std::move(options)),
        chunks_(cut_in_chunks(options_, 1)),
        me_(static_cast<std::uint32_t>(options_.among.rank)),
        wiring_(wiring_of(options_)),
        ahead_(wiring_->ahead_of(me_)) {}

  void contribute(const part& own, outbox& out) override {
    auto& this_step = at(own.origin.step);
    if (std::exchange(this_step.contributed, true))
      throw exchange_error(errc::stale, "a member contributed to the same step twice");
    const auto hearers = hearers_at(own.origin.step);
    for (std::uint32_t chunk = 0; chunk < chunks_.ranges.size(); ++chunk) {
      const auto piece = cut(own, chunks_, chunk);
      for (const auto hearer : hearers) out.send(rank_id{hearer}, piece);
    }
    for (std::uint32_t chunk = 0; chunk < chunks_.ranges.size(); ++chunk) {
      const auto piece = cut(own, chunks_, chunk);
      if (const auto place = place_of(me_, own.origin.step)) keep(this_step.folds[chunk], *place, piece);
      mix_if_complete(this_step, piece, out);
    }
  }

  void receive(const part& piece, outbox& out) override {
    rules::check_fits(piece, chunks_.ranges);
    const auto sender = static_cast<std::uint32_t>(piece.origin.sender);
    const auto place = place_of(sender, piece.origin.step);
    if (piece.at != stage::contribution || piece.what != slot::parameters || sender == me_ || !place)
      throw exchange_error(errc::mismatch, "a gossip member received a part that is not the parameters of a neighbour");
    auto& this_step = at(piece.origin.step);
    keep(this_step.folds[piece.which.part], *place, piece);
    mix_if_complete(this_step, piece, out);
  }

  std::vector<rank_id> waiting_for(std::uint64_t step) const override {
    const auto this_step = steps_.find(step);
    const auto& mixed = mixed_at(step);
    std::vector<std::uint32_t> missing;
    if (this_step == steps_.end() || !this_step->second.contributed) missing.push_back(me_);
    for (std::size_t place = 0; place < mixed.size(); ++place) {
      const auto has = [&](const fold& chunk) { return chunk.came[place]; };
      const bool arrived =
          this_step != steps_.end() && std::all_of(this_step->second.folds.begin(), this_step->second.folds.end(), has);
      if (!arrived && mixed[place].index != me_) missing.push_back(mixed[place].index);
    }
    std::sort(missing.begin(), missing.end());
    std::vector<rank_id> result;
    for (const auto index : missing) result.push_back(rank_id{index});
    return result;
  }

  std::int64_t largest_fold() const override {
    return chunks_.largest() * static_cast<std::int64_t>(wiring_->schedule.longest_row(me_));
  }

  void forget_before(std::uint64_t step) override { steps_.erase(steps_.begin(), steps_.lower_bound(step)); }

  std::optional<std::uint64_t> steps_ahead() const override { return ahead_; }

 private:
  /// One chunk: the contributions received so far, indexed by their position in this member's row of W.
  struct fold {
    std::vector<rules::weighted> summands;  ///< Empty once they are mixed.
    std::vector<bool> came;
  };

  struct progress {
    bool contributed{false};
    std::vector<fold> folds;  ///< By chunk.
  };

  progress& at(std::uint64_t step) {
    if (const auto found = steps_.find(step); found != steps_.end()) return found->second;
    const auto count = mixed_at(step).size();
    const fold none{std::vector<rules::weighted>(count), std::vector<bool>(count)};
    return steps_.emplace(step, progress{.folds = std::vector<fold>(chunks_.ranges.size(), none)}).first->second;
  }

  /// Returns the members that are mixed in the exchange of this step: this member's row of W.
  const std::vector<rules::neighbour>& mixed_at(std::uint64_t step) const {
    return wiring_->schedule.row(me_, options_.due.index_of(step));
  }

  /// Returns the members to which the own parameters are sent, starting after the own index, so that not all members
  /// send to the same one first.
  std::vector<std::uint32_t> hearers_at(std::uint64_t step) const {
    auto hearers = wiring_->schedule.hearers(me_, options_.due.index_of(step));
    std::rotate(hearers.begin(), std::upper_bound(hearers.begin(), hearers.end(), me_), hearers.end());
    return hearers;
  }

  /// Returns the position of `index` in this member's row of W, or nothing if it has no weight.
  std::optional<std::size_t> place_of(std::uint32_t index, std::uint64_t step) const {
    const auto& mixed = mixed_at(step);
    const auto before = [](const rules::neighbour& entry, std::uint32_t value) { return entry.index < value; };
    const auto position = std::lower_bound(mixed.begin(), mixed.end(), index, before);
    if (position == mixed.end() || position->index != index) return std::nullopt;
    return static_cast<std::size_t>(position - mixed.begin());
  }

  void keep(fold& into, std::size_t place, const part& piece) const {
    const auto& from = mixed_at(piece.origin.step)[place];
    if (into.came[place])
      throw exchange_error(errc::stale, "chunk " + std::to_string(piece.which.part) + " of rank " +
                                            std::to_string(from.index) + " arrived twice in one step");
    into.came[place] = true;
    into.summands[place] = {piece.piece.values, from.weight};
  }

  /// Answers the chunk of `piece` once all its summands and the member's own contribution (even with weight 0) have
  /// arrived.
  void mix_if_complete(progress& this_step, const part& piece, outbox& out) {
    auto& fold = this_step.folds[piece.which.part];
    const bool complete = std::find(fold.came.begin(), fold.came.end(), false) == fold.came.end();
    if (!this_step.contributed || !complete) return;
    part result = piece;
    result.origin.sender = options_.among.rank;
    result.what = slot::parameters;
    result.at = stage::result;
    result.piece.values = rules::mix_in_order(std::exchange(fold.summands, {}), options_.pool);
    result.sample_count = 1;
    out.answer(result);
  }

  member_options options_;
  chunking chunks_;
  std::uint32_t me_;
  std::shared_ptr<const gossip_wiring> wiring_;
  std::uint64_t ahead_;
  std::map<std::uint64_t, progress> steps_;
};

std::vector<planned_edge> gossip_edges(std::uint32_t world_size, const models::flat_layout& layout,
                                       const setting_values& settings) {
  const auto bytes = static_cast<std::uint64_t>(layout.parameter_end) * sizeof(float);
  const gossip_wiring wiring{world_size, settings};
  std::vector<planned_edge> edges;
  for (const auto& [from, to, share] : wiring.schedule.hearings()) edges.push_back({from, to, 1, bytes, share});
  return edges;
}

/// Returns the setting consensus_rate, or 0 if it is not given.
double consensus_rate_of(const setting_values& settings) {
  const auto found = settings.find("consensus_rate");
  return found == settings.end() ? 0 : std::get<double>(found->second);
}

std::optional<complaint> check_gossip(const std::vector<std::string>& names, const setting_values& settings) {
  if (auto problem = check_graph(names, settings)) return problem;
  if (consensus_rate_of(settings) == 0) return std::nullopt;
  const gossip_wiring wiring{static_cast<std::uint32_t>(names.size()), graph_by_index(names, settings)};
  if (wiring.schedule.constant() != nullptr) return std::nullopt;
  return complaint{"consensus_rate",
                   "consensus_rate requires the same neighbours in each exchange, but this graph changes; choose "
                   "another graph, or remove consensus_rate and encoding"};
}

/// Returns the settings of gossip: those of its graph, and consensus_rate.
std::vector<setting> settings_of_gossip() {
  auto settings = gossip_settings();
  settings.push_back({.name = "consensus_rate",
                      .type = setting_type::real,
                      .explanation =
                          "With an encoding, members send what has changed of what the others know of them, and move "
                          "by this share towards the mixture (CHOCO-SGD, Koloskova et al. 2019, Algorithm 2). An "
                          "encoding requires it: such as 1 for \"bf16\", 0.3 for \"int8\", \"int4\" and \"sign\", 0.1 "
                          "for a hundredth of the values. If it is too small, workers stay apart; if it is too large, "
                          "they diverge. Each worker keeps two more copies of the parameters.",
                      .minimum = 0,
                      .maximum = 1,
                      .minimum_excluded = true});
  return settings;
}

}  // namespace

exchange_kind gossip_kind() {
  return {
      .name = "gossip",
      .explanation = "Each member mixes its parameters with those of its neighbours on a graph.",
      .source = "Lian et al. 2017, \"Can decentralized algorithms outperform centralized algorithms?\", Algorithm 1",
      .carries = {{.sends = slot::parameters, .answers = slot::parameters}},
      .settings = settings_of_gossip(),
      .make_member = [](const member_options& options) { return std::make_unique<gossip_member>(options); },
      .edges = gossip_edges,
      .nature =
          [](const setting_values& settings) {
            const auto rate = consensus_rate_of(settings);
            return exchange_nature{.same_for_all = mixes_the_same(settings) && rate == 0, .consensus_rate = rate};
          },
      .derive = with_graph,
      .check = check_gossip,
      .by_index = graph_by_index,
      .make_common =
          [](std::uint32_t members, const setting_values& settings) {
            return std::make_shared<const gossip_wiring>(members, settings);
          },
  };
}

}  // namespace troupe
