// The worker's state, and the parts of its behaviour that are in files of their own. Only for worker*.cpp.
#pragma once

#include "troupe/actors/worker/worker.hpp"
#include "troupe/actors/worker/worker_progress.hpp"

#include <caf/actor_clock.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <caf/typed_response_promise.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// An exchange under way.
struct open_exchange {
  std::size_t word{0};  ///< Its index in the loop.
  std::optional<outcome> answer;
};

/// The request to compute that has not been answered yet.
enum class compute_request : std::uint8_t {
  none,
  digests,     ///< Digests of its parameters.
  one_step,    ///< Operations that complete at most one step.
  many_steps,  ///< Several steps, of which a cancel may leave out the last ones.
};

/// State of the request to halt.
enum class halt_request : std::uint8_t {
  none,
  owed,     ///< It has not been answered yet.
  settled,  ///< It was answered, or the coordinator has decided at which step the worker ends.
};

/// State of a request to hold, after which the worker goes on.
enum class hold_request : std::uint8_t { none, owed };

/// WORKER-1: x (worker_progress::now) is frozen; every step writes a new one. The other invariants are below.
struct worker_state : worker_progress {
  static inline const char* name = "worker";
  worker_options options;
  worker_contacts contacts;

  std::vector<outcome> answers;  ///< Answers of exchanges that compute still has to apply to x or g.
  std::size_t word{0};           ///< Position in the loop.
  bool in_step{false};           ///< A step has been started and is not completed.
  std::uint64_t begun{0};    ///< WORKER-2: steps that will be completed even if none is started; at least `completed`.
  std::uint64_t granted{0};  ///< WORKER-3: no step beyond this many is started.
  /// Steps before this one are skipped: their updates were made without this worker, which was late.
  std::uint64_t continues_at{0};
  compute_request asked{compute_request::none};  ///< WORKER-4: at most one request to compute at a time.
  std::optional<open_exchange> exchanging;       ///< WORKER-5: at most one exchange at a time.
  bool x_on_host{true}, g_on_host{true};  ///< Whether x and g are in host memory, if compute has a device of its own.
  bool sent_in_buckets{false};            ///< The contribution to the next exchange has already left, bucket by bucket.
  halt_request halt{halt_request::none};
  hold_request hold{hold_request::none};
  std::optional<std::uint64_t> stop;           ///< Steps after which the coordinator is told that it waits.
  std::uint64_t verified{0};                   ///< The last step whose parameters were compared with other workers'.
  std::optional<std::uint64_t> at_checkpoint;  ///< Step of the last checkpoint for which it has reported that it waits.
  std::optional<std::uint64_t> state_request;  ///< Number of the open request for its state.
  std::vector<std::uint64_t> to_show;          ///< Steps for which the coordinator has requested a snapshot.
  caf::actor_clock::time_point last_progress;
  /// When the current wait for an exchange began; empty if the worker is not waiting for one.
  std::optional<caf::actor_clock::time_point> waits_since;
  /// When the current wait for more steps began; only in a traced run.
  std::optional<caf::actor_clock::time_point> stands_since;
  std::optional<caf::actor_clock::time_point> compute_due, exchange_due;  ///< Deadlines of the awaited answers.
  std::optional<caf::actor_clock::time_point> ticks_at;                   ///< When the next tick arrives.

  rules::loop_position position() const { return {word, completed, now.origin.step}; }
  std::uint64_t may_begin() const { return options.gate ? options.gate->may_begin(granted, completed) : granted; }
  bool holds_requests() const { return options.gate && options.gate->holds_requests(); }
  rules::loop_limits limits() const { return {may_begin(), options.steps_at_once}; }
};

/// tick: sent by the worker to itself when it may have waited too long.
using worker_pointer = worker_actor::extend<caf::reacts_to<tick_atom>>::stateful_pointer<worker_state>;

// In worker.cpp.

/// Executes the loop as far as possible without waiting. Starts only steps that are granted, and reports between steps.
void walk(worker_pointer self);

/// Ends the worker because `whom`, with which it communicates, failed.
void lose(worker_pointer self, const std::string& whom, const caf::error& why);
void lose_compute(worker_pointer self, const caf::error& why);

// In worker_waits.cpp.

/// Sets a deadline, after which the worker ends unless it is reset. A few ticks serve all deadlines, because a timeout
/// for each request would stay in the actor system's clock until it is due, long after the answer.
void expect(worker_pointer self, std::optional<caf::actor_clock::time_point>& due, std::chrono::milliseconds within);

/// Handles a tick: ends the worker if a deadline has passed.
void watch(worker_pointer self);

/// Notes that the worker waits for the answer of an exchange.
void note_wait(worker_pointer self);

/// Adds the time for which the worker has waited for the answer of an exchange, if it has waited.
void count_wait(worker_pointer self);

/// Notes in a traced run that the worker waits for the coordinator between two steps.
void note_standing(worker_pointer self);

/// Reports to the trace how long the worker has waited for the coordinator, if it has.
void report_standing(worker_state& my, caf::actor_clock::time_point now);

// In worker_checkpoint.cpp.

/// Sends the state of the worker, its compute actor and its ports to the coordinator.
void send_state(worker_pointer self);

/// Restores the worker, its compute actor and its ports.
void restore_all(worker_pointer self, const state_dict& from);

}  // namespace troupe
