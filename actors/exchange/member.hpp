// One member's side of an exchange, as a state machine over parts: no actor, no clock, no thread. A port (port.cpp)
// runs it, so that an algorithm is a page of its own that a test can drive by hand in any order of messages. Members
// know each other by index: those of an exchange's n members are 0 to n−1, those of its servers n and up. Which worker,
// or group of workers, a member is, only the port knows.
#pragma once

#include "troupe/actors/errc.hpp"
#include "troupe/actors/messages.hpp"

#include <cstdint>
#include <stdexcept>
#include <vector>

namespace troupe {

/// Thrown by a member that is given what does not fit; the port's worker hears of it.
struct exchange_error : std::runtime_error {
  exchange_error(errc why, const std::string& text) : std::runtime_error(text), code(why) {}
  errc code;
};

/// Where a member leaves what it has to say.
class outbox {
 public:
  virtual ~outbox() = default;

  /// Sends `piece` to the port of `to`, another member or a server.
  virtual void send(rank_id to, part piece) = 0;

  /// Hands `piece` of the step's answer to the own worker. The answer is complete when its pieces cover the whole.
  virtual void answer(const part& piece) = 0;
};

/// Members see parts of at most two exchanges at a time: a peer can be one ahead, never two, because the one between
/// needs this member's own contribution. (Of servers this does not hold, nor where steps_ahead() says more.)
class member {
 public:
  virtual ~member() = default;

  /// Takes the own worker's contribution of a step.
  virtual void contribute(const part& own, outbox& out) = 0;

  /// Takes what a peer's port has sent; it may come before the own contribution. Throws exchange_error.
  virtual void receive(const part& piece, outbox& out) = 0;

  /// Returns the ranks that this member still waits for at `step`, itself included: what a stall is answered with.
  virtual std::vector<rank_id> waiting_for(std::uint64_t step) const = 0;

  /// Returns how many elements it may have to read to take one part: long folds do not belong in a handler.
  virtual std::int64_t largest_fold() const = 0;

  /// Forgets everything about steps below `step`.
  virtual void forget_before(std::uint64_t step) = 0;

  /// Returns how many exchanges ahead a peer's part can be: more than one where a peer goes on without hearing from
  /// this member itself.
  virtual std::uint64_t steps_ahead() const { return 1; }
};

/// A member that is no worker's: it holds parameters of its own, takes contributions and answers them. It checks the
/// steps of what it takes by itself.
class server : public member {
 public:
  /// Returns what it holds once all workers have completed `step` steps; asked when they have, for steps that grow.
  /// Where the exchange waits for all, that is exact: port_options::when tells beforehand which steps will be asked
  /// for. Else it is what there is now.
  virtual holding held(std::uint64_t step) = 0;

  /// Returns the step whose contributions waiting_for() names, where it waits for any.
  virtual std::uint64_t open_step() const { return 0; }

  void contribute(const part&, outbox&) final { throw std::logic_error("a server has no worker"); }
  void forget_before(std::uint64_t) final {}
};

}  // namespace troupe
