// Numbered invariants, of each shard:
// PS-1: the version grows by one with each update: by one per step of all workers, or per gradient.
// PS-2: no gradient is applied twice and none out of turn: each worker's steps follow one another (serving::roll_call).
// PS-3: none is lost: every gradient is applied, and answered once, with the parameters right after its update.
// PS-4: a gradient's version is one that the server has had. With apply = "all" it is the present one.
// PS-5: what was answered is never written again: a step is made out of place.
#include "troupe/actors/exchange/parameter_server.hpp"

#include "troupe/actors/exchange/member.hpp"
#include "troupe/actors/exchange/serving.hpp"
#include "troupe/actors/optimizer.hpp"
#include "troupe/actors/rules/reduce.hpp"
#include "troupe/actors/rules/shards.hpp"
#include "troupe/actors/rules/staleness.hpp"
#include "troupe/actors/support/assert.hpp"

#include <string>
#include <utility>
#include <vector>

namespace troupe {

namespace {

std::uint32_t shards_of(const setting_values& settings) {
  return static_cast<std::uint32_t>(std::get<std::int64_t>(settings.at("shards")));
}

std::vector<range> cut_of(const models::flat_layout& layout, const setting_values& settings) {
  return rules::parameter_shards(layout, shards_of(settings));
}

/// A worker's part: cuts the gradient over the servers and passes on their answers.
class client final : public member {
 public:
  explicit client(port_options options)
      : options_(std::move(options)),
        cut_(cut_of(options_.layout, options_.settings)),
        versions_(cut_.size()),
        awaited_(cut_.size()) {}

  void contribute(const part& own, outbox& out) override {
    if (!waiting_for(own.origin.step).empty())
      throw exchange_error(errc::stale, "a worker contributed before its last gradient was answered");
    step_ = own.origin.step;
    for (std::uint32_t shard = 0; shard < cut_.size(); ++shard) {
      part piece = own;
      piece.origin.version = versions_[shard];
      piece.which.part = shard;
      piece.piece = {cut_[shard].first, own.piece.values.narrow(0, cut_[shard].first, cut_[shard].count)};
      awaited_[shard] = true;
      out.send(server_of(shard), std::move(piece));
    }
  }

  void receive(const part& piece, outbox& out) override {
    rules::check_fits(piece, cut_);
    const auto shard = piece.which.part;
    if (piece.at != stage::result || piece.what != slot::parameters || piece.origin.sender != server_of(shard))
      throw exchange_error(errc::mismatch,
                           "a worker received a part that is not an answer from the server of that shard");
    if (!awaited_[shard] || piece.origin.step != step_)
      throw exchange_error(errc::stale, "a worker received an answer from a server that it did not request");
    if (piece.origin.version <= versions_[shard])
      throw exchange_error(errc::mismatch, "a server answered with parameters older than the gradient");
    awaited_[shard] = false;
    versions_[shard] = piece.origin.version;
    out.answer(piece);
  }

  std::vector<rank_id> waiting_for(std::uint64_t) const override {
    std::vector<rank_id> servers;
    for (std::uint32_t shard = 0; shard < awaited_.size(); ++shard)
      if (awaited_[shard]) servers.push_back(server_of(shard));
    return servers;
  }

  std::int64_t largest_fold() const override { return 0; }

  void forget_before(std::uint64_t) override {}

 private:
  rank_id server_of(std::uint32_t shard) const { return rank_id{options_.world_size + shard}; }

  port_options options_;
  std::vector<range> cut_;
  std::vector<std::uint64_t> versions_;  ///< By shard: of the last answer, 0 at first.
  std::vector<bool> awaited_;            ///< By shard.
  std::uint64_t step_{0};                ///< Of the gradient under way.
};

/// One shard of the parameters, and what has been done to it. There may be fewer shards than servers: the last ones
/// hold nothing.
class shard_server : public serving::answering_server {
 public:
  explicit shard_server(port_options options)
      : answering_server(std::move(options)),
        cut_(cut_of(options_.layout, options_.settings)),
        index_(static_cast<std::uint32_t>(options_.rank) - options_.world_size),
        optimizer_(make_optimizer(within(options_.optimizer, holds_nothing() ? range{} : cut_[index_]))) {
    if (!holds_nothing()) x_ = options_.initial.narrow(0, cut_[index_].first, cut_[index_].count);
    options_.initial.reset();  // x moves on
  }

  void receive(const part& piece, outbox& out) final {
    check(piece, slot::gradient, cut_, index_);  // PS-4
    take(piece, out);
  }

 protected:
  virtual void take(const part& piece, outbox& out) = 0;

  holding now() const { return {.piece = {cut_[index_].first, x_}, .version = version_, .staleness = staleness_}; }

  /// `completed`: steps that the schedule of the learning rate counts.
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

/// Steps along the mean when the gradients of all have come.
class shard_of_all final : public shard_server {
 public:
  explicit shard_of_all(const port_options& options)
      : shard_server(options),
        archive_(options.when, options.due),
        round_(options.due.next_due(0)),
        fold_(options.world_size) {}

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
    came_.back().piece.values.reset();  // the fold has it
    if (fold_.complete()) close(out);
  }

  void close(outbox& out) {
    archive_.keep_before(round_, now());
    update(fold_.take_mean(options_.pool), version_);
    for (std::uint32_t i = 0; i < options_.world_size; ++i) rules::count(staleness_, 0);
    fold_ = rules::rank_fold{options_.world_size};
    round_ = options_.due.next_due(round_ + 1);
    for (const auto& piece : std::exchange(came_, {})) answer_with_x(piece, out);
    TROUPE_ASSERT(answered_ == version_ * options_.world_size, "PS-3: every gradient must have been answered");
  }

  serving::archive archive_;
  std::uint64_t round_;  ///< The step whose gradients are gathered.
  rules::rank_fold fold_;
  std::vector<part> came_;  ///< To be answered, in order of arrival.
};

/// Steps along each gradient when it comes.
class shard_of_each final : public shard_server {
 public:
  using shard_server::shard_server;

  std::vector<rank_id> waiting_for(std::uint64_t) const override { return {}; }

  std::optional<holding> held(std::uint64_t) override { return holds_nothing() ? holding{} : now(); }

 private:
  void take(const part& piece, outbox& out) override {
    roll_call_.note(piece.origin.sender, piece.origin.step);
    rules::count(staleness_, version_ - piece.origin.version);
    update(piece.piece.values, options_.counts_updates ? version_ / options_.world_size : piece.origin.step);
    answer_with_x(piece, out);
    TROUPE_ASSERT(answered_ == version_, "PS-3: every gradient must have been answered");
  }
};

std::unique_ptr<member> make_side(const port_options& options) {
  if (!options.is_server()) return std::make_unique<client>(options);
  if (serving::applies_each(options.settings)) return std::make_unique<shard_of_each>(options);
  return std::make_unique<shard_of_all>(options);
}

std::vector<planned_edge> edges_of(std::uint32_t world_size, const models::flat_layout& layout,
                                   const setting_values& settings) {
  const auto cut = cut_of(layout, settings);
  std::vector<planned_edge> edges;
  for (std::uint32_t worker = 0; worker < world_size; ++worker) {
    for (std::uint32_t shard = 0; shard < cut.size(); ++shard) {
      const auto bytes = static_cast<std::uint64_t>(cut[shard].count) * sizeof(float);
      edges.push_back({worker, world_size + shard, 1, bytes});
      edges.push_back({world_size + shard, worker, 1, bytes});
    }
  }
  return edges;
}

exchange_nature nature(const setting_values& settings) {
  const auto all = !serving::applies_each(settings);
  return {.deterministic = all, .same_for_all = all, .servers = shards_of(settings)};
}

}  // namespace

exchange_kind parameter_server_kind() {
  return {
      .name = "parameter_server",
      .explanation = "Servers hold the parameters, apply the workers' gradients and return the new parameters.",
      .source =
          "Li et al. 2014 (OSDI), \"Scaling Distributed Machine Learning with the Parameter Server\"; "
          "asynchronous: Dean et al. 2012 (NIPS), \"Large Scale Distributed Deep Networks\", section 4.1",
      .carries = {{.sends = slot::gradient, .answers = slot::parameters}},
      .settings = {{.name = "apply",
                    .type = setting_type::choice,
                    .default_text = "\"all\"",
                    .explanation =
                        "When a server updates the parameters: \"all\" waits for the gradients of all workers and "
                        "applies their mean; \"each\" applies each gradient as it arrives (asynchronous SGD).",
                    .choices = {"all", "each"}},
                   {.name = "shards",
                    .type = setting_type::integer,
                    .default_text = "1",
                    .explanation = "Number of servers that share the parameters. Each holds whole parameters of about "
                                   "the same total size; servers beyond the number of parameters hold nothing. More "
                                   "than one cannot be combined with optimizer.clip_norm or with novograd.",
                    .minimum = 1,
                    .maximum = 64}},
      .make_member = make_side,
      .edges = edges_of,
      .nature = nature,
      .facts = {.equation = "all: x ← step(x, Σ bᵢgᵢ / Σ bᵢ); each: x ← step(x, gᵢ), one gradient after another",
                .picture = "worker i ── gradient ──▶ server j (shard j of x, optimizer, version)\n"
                           "worker i ◀─ parameters ─ server j",
                .variants =
                    {{.when = "apply = \"all\"",
                      .messages = "2n · shards",
                      .bytes = "2nP",
                      .synchronisation = "every worker waits for the slowest",
                      .staleness = "0",
                      .equals = "star and all_reduce with the same optimizer, bit for bit, for any number of shards",
                      .shown_by = {"tests/unit/actors/parameter_server_test.cpp", "tests/parity/steps.py",
                                   "tests/cli/catalogue.py"}},
                     {.when = "apply = \"each\"",
                      .messages = "2n · shards",
                      .bytes = "2nP",
                      .synchronisation = "no worker waits for another",
                      .staleness = "counted; unbounded, but n − 1 on average, whatever the workers' speeds",
                      .equals =
                          "with one worker, plain SGD; with a forced order of arrival, PyTorch in that order, to 1e-5",
                      .shown_by = {"tests/unit/actors/staleness_test.cpp", "tests/parity/steps.py",
                                   "tests/parity/wirings.py"}}}},
  };
}

}  // namespace troupe
