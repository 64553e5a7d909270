// Independent bookkeeping of an asynchronous exchange: which contributions each member sent, took and answered, and
// what each server must hold after those that it took. Uses none of the program's counters. When a run goes back to a
// checkpoint, so does the ledger.
#pragma once

#include "tests/support/watched.hpp"

#include "troupe/algorithms/messages/run_state.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace troupe::tests {

/// How a server changes what it holds. x ← x − lr·v with v ← momentum·v + g, for each gradient or for the mean of the
/// first `first` of a step; or x̃ ← x̃ + α(xⁱ − x̃).
struct server_rule {
  std::size_t first{0};  ///< 0: each gradient is applied when it arrives.
  double lr{0}, momentum{0};
  double alpha{0};  ///< Coefficient of a centre; 0 for a parameter server.
};

/// The state that a server must have after the contributions that it took, in float64.
class server_model {
 public:
  server_model(const server_rule& rule, const at::Tensor& initial);

  void take(const part& piece);

  /// Returns whether an answer has the values and the version that it must have.
  bool explains(const part& answer) const;

  const at::Tensor& values() const { return x_; }
  std::uint64_t version() const { return version_; }
  std::uint64_t applied() const { return applied_; }
  std::uint64_t refused() const { return refused_; }

 private:
  void step(const at::Tensor& gradient);

  server_rule rule_;
  at::Tensor x_, v_, change_;
  std::vector<part> came_;  ///< Gradients of the open step, if rule_.first > 0.
  std::uint64_t version_{0}, applied_{0}, refused_{0};
};

/// One exchange of n workers and some servers. Workers have the indices 0 to n−1, servers n and up.
class ledger final : public witness {
 public:
  ledger(std::uint32_t workers, std::uint32_t servers) : workers_(workers), servers_(servers) {}

  void sent(rank_id by, rank_id to, const part& piece) override { enter(by, {true, to, piece}); }
  void taken(rank_id by, const part& piece) override { enter(by, {false, piece.origin.sender, piece}); }
  void answered(rank_id, const part&) override {}
  void saved(rank_id by, const state_dict& state) override;

  /// Forgets what happened after this checkpoint, or everything. `name` is that of the exchange. Returns the number of
  /// forgotten events. Throws std::logic_error if the state of a server in the checkpoint was never saved.
  std::size_t go_back(const run_state* checkpoint, const std::string& name);

  /// Returns what is wrong: a contribution or an answer that was lost or repeated, or values that do not follow from
  /// the contributions that were taken. Empty if everything is in order. `steps`: the steps to which every worker
  /// contributes; empty if the workers share a budget, so that each may have made any number.
  std::string complaint(const std::set<std::uint64_t>& steps, const server_rule& rule, const at::Tensor& initial) const;

  /// Returns the model of a server after all contributions that it took.
  server_model model_of(std::uint32_t server, const server_rule& rule, const at::Tensor& initial) const;

  /// Returns the number of contributions that the workers have sent to the first server.
  std::uint64_t contributions() const;

 private:
  struct event {
    bool out{false};  ///< Sent rather than taken.
    rank_id peer{};
    part piece;
  };
  using sizes = std::map<rank_id, std::size_t>;  ///< Lengths of the lists of events.

  void enter(rank_id by, event one);
  rank_id server(std::uint32_t index) const { return rank_id{workers_ + index}; }
  /// Returns whether the worker contributed to all steps except those whose updates were made before it was answered.
  bool leaves_out_late_steps_only(rank_id worker, const std::set<std::uint64_t>& steps) const;
  std::vector<std::uint64_t> steps_of(rank_id by, rank_id peer, bool out) const;

  std::uint32_t workers_, servers_;
  std::map<rank_id, std::vector<event>> lists_;      ///< By worker or server, in order.
  sizes worker_sizes_;                               ///< When each worker last saved its state.
  std::vector<std::pair<state_dict, sizes>> saved_;  ///< States of servers, and the lists then; workers save first.
};

}  // namespace troupe::tests
