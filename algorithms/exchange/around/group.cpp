#include "troupe/algorithms/exchange/around/group.hpp"

#include "troupe/algorithms/rules/reduce.hpp"
#include "troupe/algorithms/support/assert.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

namespace troupe {

namespace {

/// Translates between outer indices (workers) and inner indices (groups); servers have both.
class translation {
 public:
  explicit translation(const worker_groups& groups) : groups_(groups) {
    for (const auto& group : groups_) workers_ += static_cast<std::uint32_t>(group.size());
    std::vector<bool> seen(workers_, false);
    for (const auto& group : groups_) {
      TROUPE_ASSERT(!group.empty() && std::is_sorted(group.begin(), group.end()),
                    "groups must be ascending and not empty");
      for (const auto worker : group) {
        TROUPE_ASSERT(worker < workers_ && !seen[worker], "every worker must be in exactly one group");
        seen[worker] = true;
      }
    }
  }

  /// Returns the group of `worker`.
  std::uint32_t group_of(std::uint32_t worker) const {
    for (std::uint32_t i = 0; i < groups_.size(); ++i)
      if (std::binary_search(groups_[i].begin(), groups_[i].end(), worker)) return i;
    TROUPE_ASSERT(false, "every worker must be in exactly one group");
    return 0;
  }

  /// Returns the outer index of a group's leader or of a server.
  rank_id outer(rank_id inner) const {
    const auto index = static_cast<std::uint32_t>(inner);
    return rank_id{index < count() ? groups_[index].front() : index - count() + workers_};
  }

  /// Returns the inner index of the group that `outer` leads, or of a server; nothing for a worker that leads no group.
  std::optional<rank_id> inner(rank_id outer) const {
    const auto index = static_cast<std::uint32_t>(outer);
    if (index >= workers_) return rank_id{index - workers_ + count()};
    const auto group = group_of(index);
    return groups_[group].front() == index ? std::optional{rank_id{group}} : std::nullopt;
  }

  const std::vector<std::uint32_t>& group(std::uint32_t index) const { return groups_[index]; }

  std::uint32_t count() const { return static_cast<std::uint32_t>(groups_.size()); }

 private:
  worker_groups groups_;
  std::uint32_t workers_{0};
};

/// Forwards what an inner member sends, translated to outer indices, and passes its answers to `answered`.
class translated final : public outbox {
 public:
  translated(const translation& names, outbox& out, std::function<void(part)> answered)
      : names_(names), out_(out), answered_(std::move(answered)) {}

  void send(rank_id to, part piece) override {
    piece.origin.sender = names_.outer(piece.origin.sender);
    out_.send(names_.outer(to), std::move(piece));
  }

  void answer(const part& piece) override { answered_(piece); }

 private:
  const translation& names_;
  outbox& out_;
  std::function<void(part)> answered_;
};

/// Returns `piece` with its sender as an inner index. Throws exchange_error (mismatch) unless a leader or a server sent
/// it.
part from_outside(const translation& names, const part& piece) {
  const auto sender = names.inner(piece.origin.sender);
  if (!sender)
    throw exchange_error(errc::mismatch,
                         "received a part from a worker of another group that is not the leader of that group");
  part result = piece;
  result.origin.sender = *sender;
  return result;
}

std::vector<rank_id> to_outside(const translation& names, std::vector<rank_id> inner) {
  for (auto& rank : inner) rank = names.outer(rank);
  return inner;
}

/// The leader of a group: folds the group's contributions and represents the group in the inner exchange.
class leader final : public member {
 public:
  explicit leader(const group_options& options)
      : options_(options.own),
        names_(options.groups),
        me_(names_.group_of(static_cast<std::uint32_t>(options_.among.rank))),
        workers_(names_.group(me_)),
        inner_(options.make_inner(inner_options(options))),
        folds_(static_cast<std::uint32_t>(workers_.size())) {}

  void contribute(const part& own, outbox& out) override { gather(own, out); }

  void receive(const part& piece, outbox& out) override {
    const auto sender = static_cast<std::uint32_t>(piece.origin.sender);
    if (piece.origin.sender != options_.among.rank && std::binary_search(workers_.begin(), workers_.end(), sender))
      return gather(piece, out);
    with_inner(out, [&](outbox& within) { inner_->receive(from_outside(names_, piece), within); });
  }

  /// Returns the missing workers of the group and the ranks that the group is waiting for.
  std::vector<rank_id> waiting_for(std::uint64_t step) const override {
    std::set<rank_id> missing;
    for (const auto rank : inner_->waiting_for(step))
      if (rank != rank_id{me_}) missing.insert(names_.outer(rank));
    for (const auto rank : folds_.missing(step)) missing.insert(rank_id{workers_[static_cast<std::size_t>(rank)]});
    return {missing.begin(), missing.end()};
  }

  std::int64_t largest_fold() const override {
    const auto own =
        workers_.size() == 1 ? 0 : options_.layout.parameter_end * static_cast<std::int64_t>(workers_.size());
    return std::max(own, inner_->largest_fold());
  }

  void forget_before(std::uint64_t step) override {
    folds_.forget_before(step);
    inner_->forget_before(step);
  }

  std::optional<std::uint64_t> steps_ahead() const override { return inner_->steps_ahead(); }

  state_dict state() const override { return inner_->state(); }

 private:
  void gather(const part& piece, outbox& out) {
    if (piece.at != stage::contribution)
      throw exchange_error(errc::mismatch,
                           "a leader received a part that is not a contribution from a worker of its group");
    rules::check_fits(piece, {{0, options_.layout.parameter_end}});
    const auto sender = static_cast<std::uint32_t>(piece.origin.sender);
    const auto position = std::lower_bound(workers_.begin(), workers_.end(), sender) - workers_.begin();
    auto its = piece;
    its.origin.sender = rank_id{static_cast<std::uint32_t>(position)};
    auto& fold = folds_.add(its);
    if (!fold.complete()) return;
    auto mean = rules::take_result(fold, piece, rank_id{me_}, options_.pool);
    mean.at = stage::contribution;
    if (mean.what == slot::parameters) mean.sample_count = 1;
    with_inner(out, [&](outbox& within) { inner_->contribute(mean, within); });
  }

  template <class Work>
  void with_inner(outbox& out, Work work) {
    translated within{names_, out, [&](part piece) {
                        piece.at = stage::result;
                        piece.origin.sender = options_.among.rank;
                        out.answer(piece);
                        for (std::size_t i = 1; i < workers_.size(); ++i) out.send(rank_id{workers_[i]}, piece);
                      }};
    work(within);
  }

  member_options options_;
  translation names_;
  std::uint32_t me_;  ///< Index of its own group.
  std::vector<std::uint32_t> workers_;
  std::unique_ptr<member> inner_;
  rules::rank_folds folds_;  ///< Folds of the contributions of the group, by position in the group.
};

/// A group member other than the leader: sends its contribution to the leader and receives the answer from it.
class follower final : public member {
 public:
  explicit follower(const group_options& options) : options_(options.own) {
    const translation names{options.groups};
    leader_ = rank_id{names.group(names.group_of(static_cast<std::uint32_t>(options_.among.rank))).front()};
  }

  void contribute(const part& own, outbox& out) override {
    if (!answered_.try_emplace(own.origin.step).second)
      throw exchange_error(errc::stale, "a rank contributed to the same step twice");
    out.send(leader_, own);
  }

  void receive(const part& piece, outbox& out) override {
    const auto arrived = answered_.find(piece.origin.step);
    if (piece.at != stage::result || piece.origin.sender != leader_ || arrived == answered_.end())
      throw exchange_error(errc::mismatch,
                           "a worker received a part that is not an answer from the leader of its group");
    const auto end = piece.piece.first + piece.piece.values.numel();
    if (piece.piece.first < 0 || end > options_.layout.parameter_end)
      throw exchange_error(errc::mismatch, "a part does not fit this model");
    if (!arrived->second.insert(piece.piece.first).second)
      throw exchange_error(errc::stale, "a piece of an answer arrived twice");
    out.answer(piece);
  }

  std::vector<rank_id> waiting_for(std::uint64_t) const override { return {leader_}; }

  std::int64_t largest_fold() const override { return 0; }

  void forget_before(std::uint64_t step) override { answered_.erase(answered_.begin(), answered_.lower_bound(step)); }

 private:
  member_options options_;
  rank_id leader_{};
  /// For each step contributed to: the first elements of the pieces of the answer that have arrived.
  std::map<std::uint64_t, std::set<std::int64_t>> answered_;
};

/// A server of the inner exchange, whose members are groups; their leaders send and receive for them.
class group_server final : public server {
 public:
  explicit group_server(const group_options& options)
      : names_(options.groups), inner_(options.make_inner(inner_options(options))) {}

  void receive(const part& piece, outbox& out) override {
    translated within{names_, out, [&](const part& answer) { out.answer(answer); }};
    inner_->receive(from_outside(names_, piece), within);
  }

  std::vector<rank_id> waiting_for(std::uint64_t step) const override {
    return to_outside(names_, inner_->waiting_for(step));
  }

  std::int64_t largest_fold() const override { return inner_->largest_fold(); }

  std::optional<std::uint64_t> open_step() const override { return inner_->open_step(); }

  std::optional<holding> held(std::uint64_t step) override { return inner_->held(step); }

  state_dict state() const override { return inner_->state(); }

 private:
  translation names_;
  std::unique_ptr<member> inner_;
};

}  // namespace

member_options inner_options(const group_options& options) {
  const translation names{options.groups};
  auto inner = options.own;
  const auto rank = options.own.among.is_server()
                        ? names.inner(options.own.among.rank)
                        : rank_id{names.group_of(static_cast<std::uint32_t>(options.own.among.rank))};
  inner.among.rank = rank.value();
  inner.among.world_size = names.count();
  inner.among.ids.clear();
  inner.among.nodes.clear();
  for (std::uint32_t i = 0; i < names.count() + options.own.among.servers; ++i) {
    const auto outer = names.outer(rank_id{i});
    inner.among.ids.push_back(
        options.own.among.ids.empty() ? outer : options.own.among.ids.at(static_cast<std::size_t>(outer)));
    if (!options.own.among.nodes.empty())
      inner.among.nodes.push_back(options.own.among.nodes.at(static_cast<std::size_t>(outer)));
  }
  return inner;
}

std::unique_ptr<member> make_group_member(const group_options& options) {
  if (options.own.among.is_server()) return std::make_unique<group_server>(options);
  if (translation{options.groups}.inner(options.own.among.rank)) return std::make_unique<leader>(options);
  return std::make_unique<follower>(options);
}

std::vector<planned_edge> group_edges(const worker_groups& groups, const std::vector<planned_edge>& inner_edges,
                                      planned_edge whole) {
  const translation names{groups};
  const auto outer = [&](std::uint32_t inner) { return static_cast<std::uint32_t>(names.outer(rank_id{inner})); };
  std::vector<planned_edge> edges;
  for (const auto& group : groups) {
    for (std::size_t i = 1; i < group.size(); ++i) {
      std::tie(whole.from, whole.to) = std::tie(group[i], group.front());
      edges.push_back(whole);
      std::swap(whole.from, whole.to);
      edges.push_back(whole);
    }
  }
  for (auto edge : inner_edges) {
    edge.from = outer(edge.from);
    edge.to = outer(edge.to);
    edges.push_back(edge);
  }
  return edges;
}

}  // namespace troupe
