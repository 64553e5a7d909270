// Numbered invariants of each shard:
// PS-1: the version grows by one with each update: by one per step of all workers, or per gradient.
// PS-2: no gradient is applied twice or out of turn: each worker's gradients arrive in the order of its steps
// (serving::roll_call). With apply = "first", a worker whose gradient was refused may skip the steps whose updates were
// made without it.
// PS-3: no gradient is lost: each is applied, or refused and counted, and is answered once, with the parameters after
// its update.
// PS-4: the version of a gradient is one that the server has had; with apply = "all", it is the current one.
// PS-5: an answer is never written again: an update is made out of place.
#include "troupe/algorithms/exchange/servers/shards.hpp"

#include "troupe/algorithms/exchange/servers/serving.hpp"
#include "troupe/algorithms/rules/reduce.hpp"
#include "troupe/algorithms/rules/shards.hpp"
#include "troupe/algorithms/rules/staleness.hpp"
#include "troupe/algorithms/support/assert.hpp"
#include "troupe/algorithms/training/optimizer.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace troupe::parameter_server {

namespace {

/// One shard of the parameters, its optimizer, and the staleness of the gradients applied to it. There may be fewer
/// shards than servers: the last servers then hold nothing.
class shard_server : public serving::answering_server {
 public:
  explicit shard_server(member_options options)
      : answering_server(std::move(options)),
        cut_(cut_of(options_.layout, options_.settings)),
        index_(static_cast<std::uint32_t>(options_.among.rank) - options_.among.world_size),
        optimizer_(make_optimizer(within(options_.optimizer, holds_nothing() ? range{} : cut_[index_]))) {
    if (options_.restored) {
      auto held = serving::restored_holding(*options_.restored, "held");
      x_ = held.piece.values;
      staleness_ = std::move(held.staleness);
      optimizer_->restore(options_.restored->all("optimizer"));
      if (!holds_nothing() && (!x_.defined() || x_.numel() != cut_[index_].count))
        throw state_error("the parameters of the server do not fit its shard");
    } else if (!holds_nothing()) {
      x_ = options_.initial.narrow(0, cut_[index_].first, cut_[index_].count);
    }
    options_.initial.reset();  // so that its memory can be released once x has been replaced
  }

  state_dict state() const override {
    auto state = answering_server::state();
    if (holds_nothing()) {
      serving::save({}, "held", state);
      return state;
    }
    serving::save(now(), "held", state);
    state.put_all("optimizer", optimizer_->state());
    return state;
  }

  void receive(const part& piece, outbox& out) final {
    check(piece, slot::gradient, cut_, index_);  // PS-4
    take(piece, out);
  }

 protected:
  virtual void take(const part& piece, outbox& out) = 0;

  holding now() const { return {.piece = {cut_[index_].first, x_}, .version = version_, .staleness = staleness_}; }

  /// Applies `gradient`. `completed`: steps that the schedule of the learning rate counts.
  void update(const at::Tensor& gradient, std::uint64_t completed) {
    auto next = options_.pool.take(x_.numel());
    next.copy_(x_);
    optimizer_->step(next, gradient, 1, completed);
    x_ = std::move(next);  // PS-5
    version_ += 1;         // PS-1
  }

  void answer_with_x(const part& piece, outbox& out) { answer(piece, slot::parameters, x_, out); }

  bool holds_nothing() const { return index_ >= cut_.size(); }

  std::vector<range> cut_;
  std::uint32_t index_;
  std::unique_ptr<optimizer> optimizer_;
  at::Tensor x_;  ///< Frozen.
  staleness_tally staleness_;
};

/// Updates the shard with the mean once the gradients of all workers have arrived.
class shard_of_all final : public shard_server {
 public:
  explicit shard_of_all(const member_options& options)
      : shard_server(options),
        archive_(options),
        round_(options.restored ? options.restored->count("round") : serving::first_due(options)),
        fold_(options.among.world_size) {
    options_.restored.reset();
  }

  state_dict state() const override {
    auto state = shard_server::state();
    state.put_count("round", round_);
    archive_.save(state);
    return state;
  }

  std::vector<rank_id> waiting_for(std::uint64_t) const override {
    return came_.empty() ? std::vector<rank_id>{} : fold_.missing();
  }

  std::optional<std::uint64_t> open_step() const override { return round_; }

  std::optional<holding> held(std::uint64_t step) override {
    return holds_nothing() ? holding{} : archive_.take(step, now());
  }

 private:
  void take(const part& piece, outbox& out) override {
    if (piece.origin.step > round_)
      throw exchange_error(errc::mismatch, "received a gradient before the previous step's gradient was answered");
    roll_call_.note(piece.origin.sender, piece.origin.step);
    if (piece.origin.version != version_)
      throw exchange_error(errc::mismatch, "a gradient was computed from outdated parameters");  // PS-4
    fold_.add(piece.origin.sender, piece.piece.values, piece.sample_count);
    came_.push_back(piece);
    came_.back().piece.values.reset();  // the fold holds the values
    if (fold_.complete()) close(out);
  }

  void close(outbox& out) {
    archive_.keep_before(round_, now());
    update(fold_.take_mean(options_.pool), version_);
    for (std::uint32_t i = 0; i < options_.among.world_size; ++i) rules::count(staleness_, 0);
    fold_ = rules::rank_fold{options_.among.world_size};
    round_ = options_.due.next_due(round_ + 1);
    for (const auto& piece : std::exchange(came_, {})) answer_with_x(piece, out);
    TROUPE_ASSERT(answered_ == version_ * options_.among.world_size, "PS-3: every gradient must have been answered");
  }

  serving::archive archive_;
  std::uint64_t round_;  ///< The step whose gradients are gathered.
  rules::rank_fold fold_;
  std::vector<part> came_;  ///< Contributions to be answered, in order of arrival.
};

/// Updates the shard with the mean of the first k gradients of a step that were computed from the current parameters.
/// The other workers are backup workers (Chen et al. 2016, section 3.2).
class shard_of_first final : public shard_server {
 public:
  explicit shard_of_first(const member_options& options)
      : shard_server(options), first_(rule_of(options.settings).first) {
    options_.restored.reset();
  }

  /// Returns the workers whose gradients could still be part of the update.
  std::vector<rank_id> waiting_for(std::uint64_t) const override {
    std::vector<rank_id> missing;
    for (std::uint32_t i = 0; i < options_.among.world_size && !came_.empty(); ++i)
      if (!came_.contains(rank_id{i})) missing.push_back(rank_id{i});
    return missing;
  }

  std::optional<std::uint64_t> open_step() const override { return version_; }

  std::optional<holding> held(std::uint64_t) override { return holds_nothing() ? holding{} : now(); }

  /// While no step is under way, every gradient has been answered.
  state_dict state() const override {
    TROUPE_ASSERT(came_.empty(), "a state must be taken while no gradient waits for others");
    return shard_server::state();
  }

 private:
  void take(const part& piece, outbox& out) override {
    roll_call_.note_later(piece.origin.sender, piece.origin.step);
    // A gradient of an earlier step is refused even if it was computed from the current parameters. Thus update r uses
    // only gradients of step r, which every worker computes or is late for: an update never waits in vain, even if
    // workers stop together.
    if (piece.origin.version != version_ || piece.origin.step != version_) {
      staleness_.refused += 1;
      return answer_with_x(piece, out);
    }
    came_.emplace(piece.origin.sender, piece);
    if (came_.size() == first_) close(out);
  }

  void close(outbox& out) {
    std::vector<rules::weighted> summands;
    for (const auto& [rank, piece] : came_)
      summands.push_back({piece.piece.values, static_cast<double>(piece.sample_count)});
    update(rules::mean_in_order(summands, options_.pool), version_);
    for (std::uint32_t i = 0; i < first_; ++i) rules::count(staleness_, 0);
    for (const auto& [rank, piece] : std::exchange(came_, {})) answer_with_x(piece, out);
    TROUPE_ASSERT(answered_ == staleness_.applied + staleness_.refused, "PS-3: every gradient must have been answered");
  }

  std::size_t first_;
  std::map<rank_id, part> came_;  ///< Gradients of the current version.
};

/// Updates the shard with each gradient as it arrives. With a bound s, the answer to a worker is held back while it
/// would let the worker begin a step that is more than s ahead of the steps that the slowest worker has completed (Ho
/// et al. 2013, section 3). Every answer contains the newest parameters.
class shard_of_each final : public shard_server {
 public:
  explicit shard_of_each(const member_options& options)
      : shard_server(options), bound_(rule_of(options.settings).staleness_bound) {
    options_.restored.reset();
  }

  /// Returns the slowest workers, if an answer is held back for them.
  std::vector<rank_id> waiting_for(std::uint64_t) const override {
    return waiting_.empty() ? std::vector<rank_id>{} : roll_call_.missing(slowest());
  }

  std::optional<std::uint64_t> open_step() const override { return bound_ ? slowest() : 0; }

  std::optional<holding> held(std::uint64_t) override { return holds_nothing() ? holding{} : now(); }

  state_dict state() const override {
    TROUPE_ASSERT(waiting_.empty(), "a state must be taken while no worker waits for others");
    return shard_server::state();
  }

 private:
  std::uint64_t slowest() const { return *std::min_element(roll_call_.next().begin(), roll_call_.next().end()); }

  void take(const part& piece, outbox& out) override {
    roll_call_.note(piece.origin.sender, piece.origin.step);
    rules::count(staleness_, version_ - piece.origin.version);
    update(piece.piece.values, options_.counts_updates ? version_ / options_.among.world_size : piece.origin.step);
    waiting_.push_back(piece);
    waiting_.back().piece.values.reset();
    answer_those_within_bound(out);
    TROUPE_ASSERT(answered_ + waiting_.size() == version_, "PS-3: every gradient must be answered");
  }

  void answer_those_within_bound(outbox& out) {
    const auto least = slowest();
    for (const auto& piece : std::exchange(waiting_, {})) {
      const auto next = roll_call_.next()[static_cast<std::size_t>(piece.origin.sender)];
      if (!bound_ || next - least <= *bound_)
        answer_with_x(piece, out);
      else
        waiting_.push_back(piece);
    }
  }

  std::optional<std::uint64_t> bound_;
  std::vector<part> waiting_;  ///< Contributions whose answer is held back.
};

}  // namespace

rule rule_of(const setting_values& settings) {
  const auto& apply = std::get<std::string>(settings.at("apply"));
  rule result{.apply = apply == "all" ? applies::all : apply == "first" ? applies::first : applies::each};
  const auto number = [&](const char* key) -> std::optional<std::uint64_t> {
    const auto found = settings.find(key);
    if (found == settings.end()) return std::nullopt;
    return static_cast<std::uint64_t>(std::get<std::int64_t>(found->second));
  };
  result.first = static_cast<std::uint32_t>(number("first").value_or(0));
  result.staleness_bound = number("staleness_bound");
  return result;
}

std::uint32_t shards_of(const setting_values& settings) {
  return static_cast<std::uint32_t>(std::get<std::int64_t>(settings.at("shards")));
}

std::vector<range> cut_of(const models::flat_layout& layout, const setting_values& settings) {
  return rules::parameter_shards(layout, shards_of(settings));
}

std::unique_ptr<member> make_shard(const member_options& options) {
  switch (rule_of(options.settings).apply) {
    case applies::all:
      return std::make_unique<shard_of_all>(options);
    case applies::first:
      return std::make_unique<shard_of_first>(options);
    case applies::each:
      return std::make_unique<shard_of_each>(options);
  }
  return nullptr;
}

}  // namespace troupe::parameter_server
