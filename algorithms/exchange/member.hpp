// One member's part of an exchange, as a state machine over parts: no actor, no clock, no thread. A port (port.cpp)
// runs it, so an algorithm is a page of its own that a test can drive by hand with any order of messages. Members
// identify each other by index: the n members of an exchange are 0 to n−1, its servers n and up. Only the port maps
// an index to a worker or a group of workers.
#pragma once

#include "troupe/algorithms/messages/errc.hpp"
#include "troupe/algorithms/messages/part.hpp"
#include "troupe/algorithms/messages/state_dict.hpp"

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <vector>

namespace troupe {

/// Output of a member.
class outbox {
 public:
  virtual ~outbox() = default;

  /// Sends `piece` to the port of `to`, another member or a server.
  virtual void send(rank_id to, part piece) = 0;

  /// Passes `piece` of the step's answer to the member's own worker. The answer is complete when its pieces cover the
  /// whole.
  virtual void answer(const part& piece) = 0;
};

/// A member receives parts of its current exchange and of at most steps_ahead() later ones. If every answer requires a
/// contribution of every member, that is one: a peer can be one exchange ahead, never two.
class member {
 public:
  virtual ~member() = default;

  /// Accepts the worker's own contribution to a step.
  virtual void contribute(const part& own, outbox& out) = 0;

  /// Accepts a part sent by a peer's port; it may arrive before the member's own contribution. Throws exchange_error.
  virtual void receive(const part& piece, outbox& out) = 0;

  /// Returns the ranks that this member is still waiting for at `step`, itself included; used to report a stall.
  virtual std::vector<rank_id> waiting_for(std::uint64_t step) const = 0;

  /// Returns the maximum number of elements read to process one part, because long folds do not belong in a handler.
  virtual std::int64_t largest_fold() const = 0;

  /// Forgets everything about steps before `step`.
  virtual void forget_before(std::uint64_t step) = 0;

  /// Returns how many exchanges ahead of its own worker a peer's part can be: more than one if a peer can continue
  /// without a message from this member. Returns nothing if the member checks the steps of parts itself.
  virtual std::optional<std::uint64_t> steps_ahead() const { return 1; }

  /// Returns the step to which waiting_for() refers; nothing if that is the step of its own worker.
  virtual std::optional<std::uint64_t> open_step() const { return std::nullopt; }

  /// Returns what the member holds of the result of the run once all workers have completed `step` steps, or nothing if
  /// it holds none. Called after that, with increasing steps. If the exchange waits for all workers, the result is
  /// exact, and member_options::when defines in advance which steps will be requested. Otherwise, it is the current
  /// state.
  virtual std::optional<holding> held(std::uint64_t /*step*/) { return std::nullopt; }

  /// Returns what later steps depend on, for member_options::restored. Called only while no step is under way: every
  /// contribution has been answered. A member that keeps nothing from one step to the next has no state.
  virtual state_dict state() const { return {}; }
};

/// A member without a worker: it holds parameters of its own, accepts contributions and answers them.
class server : public member {
 public:
  std::optional<holding> held(std::uint64_t step) override = 0;
  std::optional<std::uint64_t> open_step() const override { return 0; }
  std::optional<std::uint64_t> steps_ahead() const final { return std::nullopt; }
  void contribute(const part&, outbox&) final { throw std::logic_error("a server has no worker"); }
  void forget_before(std::uint64_t) final {}
};

}  // namespace troupe
