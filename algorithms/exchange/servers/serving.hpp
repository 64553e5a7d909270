// Shared parts of the servers of exchanges: which contribution must arrive next, how it is answered, and what must be
// kept for steps that workers have passed.
#pragma once

#include "troupe/algorithms/exchange/member.hpp"
#include "troupe/algorithms/exchange/member_options.hpp"
#include "troupe/algorithms/exchange/registry.hpp"
#include "troupe/algorithms/messages/part.hpp"
#include "troupe/algorithms/rules/reduce.hpp"
#include "troupe/algorithms/rules/schedule.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace troupe::serving {

/// Returns the step that the first contributions are stamped with: the first one from member_options::first_step on at
/// which the exchange is due.
std::uint64_t first_due(const member_options& options);

/// Returns the traffic of an exchange in which each worker sends the whole to a single server, and is answered with the
/// whole; see exchange_kind::edges.
std::vector<planned_edge> edges_to_one_server(std::uint32_t workers, const models::flat_layout& layout,
                                              const setting_values& settings);

/// Stores what a server holds; x is not defined for a server that holds nothing.
void save(const holding& held, const std::string& name, state_dict& into);
/// Returns what save() stored.
holding restored_holding(const state_dict& from, const std::string& name);

/// Returns whether the settings contain apply = "each" rather than "all".
bool applies_each(const setting_values& settings);

/// Tracks the steps of each worker's contributions, which must arrive in order, one for each step at which the exchange
/// is due. Thus no contribution is accepted twice, and none is skipped.
class roll_call {
 public:
  roll_call(const member_options& options);

  /// Notes that the contribution of `worker` to `step` has arrived. Throws exchange_error: stale if it arrived before,
  /// mismatch if an earlier one is missing.
  void note(rank_id worker, std::uint64_t step);

  /// Does the same as note() for a worker that may skip steps.
  void note_later(rank_id worker, std::uint64_t step);

  /// Returns the workers whose contribution to `step` has not arrived.
  std::vector<rank_id> missing(std::uint64_t step) const;

  /// Returns the next step expected from each worker.
  const std::vector<std::uint64_t>& next() const { return next_; }

 private:
  cadence due_;
  std::vector<std::uint64_t> next_;  ///< Next step expected from each worker.
};

/// Keeps what a server held at steps that workers have passed, until it is requested.
class archive {
 public:
  archive(const member_options& options);

  /// Records what the server holds before it accepts the contributions of all workers that are stamped `step`.
  void keep_before(std::uint64_t step, const holding& now);

  /// Returns what the server held when all workers had completed `step` steps: the kept value, or else `now`. Forgets
  /// everything kept up to that step.
  holding take(std::uint64_t step, const holding& now);

  void save(state_dict& into) const;

 private:
  schedule when_;
  cadence due_;
  std::uint64_t reached_{0};  ///< What is held at steps below this one no longer changes.
  std::map<std::uint64_t, holding> kept_;
};

/// A worker's side of an exchange with servers: sends its contribution shard by shard, and accepts one answer to each.
class served_client : public member {
 public:
  void contribute(const part& own, outbox& out) final;
  void receive(const part& piece, outbox& out) final;
  std::vector<rank_id> waiting_for(std::uint64_t step) const final;
  std::int64_t largest_fold() const override { return 0; }
  void forget_before(std::uint64_t) final {}

 protected:
  struct service {
    std::vector<range> cut;               ///< By shard: the range of its server.
    std::vector<std::uint64_t> versions;  ///< By shard: the version of the last answer, 0 at first.
    slot answers{slot::parameters};       ///< What an answer contains.
    bool may_repeat_version{false};       ///< Whether an answer may have the version of the one before it.
  };

  served_client(member_options options, service with);

  /// Called before a contribution is sent.
  virtual void begin(const part& own) { (void)own; }

  /// Returns what is passed to the worker for a server's answer.
  virtual part answer_from(const part& piece) = 0;

  std::uint64_t step() const { return step_; }
  const std::vector<std::uint64_t>& versions() const { return with_.versions; }

  member_options options_;

 private:
  rank_id server_of(std::uint32_t shard) const { return rank_id{options_.among.world_size + shard}; }

  service with_;
  std::vector<bool> awaited_;  ///< By shard: whether its answer is still missing.
  std::uint64_t step_{0};      ///< Step of the contribution under way.
};

/// Common behaviour of servers: they check what arrives and answer each contribution once.
class answering_server : public server {
 public:
  state_dict state() const override;

  /// Returns the maximum, because a pass over everything held, or a step of LibTorch's optimizer, never belongs in a
  /// handler.
  std::int64_t largest_fold() const final;

 protected:
  explicit answering_server(member_options options);

  /// Throws exchange_error (mismatch) unless `piece` is a contribution from a worker, contains `what`, covers the range
  /// of `cut` with this index, and was computed from a version that has existed.
  void check(const part& piece, slot what, const std::vector<range>& cut, std::uint32_t index) const;

  /// Answers a contribution: the answer has the contribution's stamp except for sender and version.
  void answer(const part& contribution, slot what, const at::Tensor& values, outbox& out);

  member_options options_;
  roll_call roll_call_;
  std::uint64_t version_{0};   ///< Number of updates made.
  std::uint64_t answered_{0};  ///< Number of contributions answered.
};

}  // namespace troupe::serving
