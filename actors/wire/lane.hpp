// A lane runs an actor's blocking work (LibTorch, files), so that no handler blocks. The jobs of a lane run one after
// the other, and their results return to the owner as messages. The launcher decides what a lane is: a thread of its
// own, or the same thread under the test coordinator.
#pragma once

#include "troupe/actors/wire/actor_id.hpp"
#include "troupe/actors/wire/error.hpp"
#include "troupe/actors/wire/inspect.hpp"

#include <caf/actor.hpp>
#include <caf/actor_cast.hpp>
#include <caf/typed_response_promise.hpp>

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace troupe {

/// Work that a job lets its owner run in the owner's context, at the job's end or while it is paused at a rendezvous.
/// Never leaves the process.
struct completion {
  std::shared_ptr<std::function<void()>> run;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, completion&) {
  return detail::inspect_local(f, "completion");
}

/// What a job does, so that a simulation can give it a duration. Amounts that do not apply are 0.
struct task {
  enum class kind : std::uint8_t {
    advance,   ///< Local work of a worker: gradients, and steps of the optimizer.
    fold,      ///< A part taken by a member or a server.
    assemble,  ///< The result of a run, from replicas and servers.
    evaluate,  ///< An evaluation over the validation set.
    digest,    ///< Digests of parameters.
    state,     ///< The state of an actor, taken or restored.
    write,     ///< Output to a journal.
  };
  kind what{};
  std::uint64_t gradients{0};  ///< Gradients that it computes, unless it is cancelled.
  std::int64_t samples{0};     ///< Samples of each gradient, or of the evaluation.
  std::int64_t elements{0};    ///< Elements of flat storage that it reads, besides those of gradients.
};

/// Place where a job of a lane waits until its owner lets it continue. Outlives both.
class rendezvous {
 public:
  virtual ~rendezvous() = default;

  /// Called by the job, on any thread: returns when resume() has been called for it. Returns false if the lane is gone
  /// and resume() will never be called.
  virtual bool wait() = 0;

  /// Called by the owner: releases one wait(), including a future one.
  virtual void resume() = 0;
};

/// Decides when the messages that a job sends before its end leave. Outlives the lane.
class job_clock {
 public:
  virtual ~job_clock() = default;

  /// Called by the job under way when it has computed `gradients` of the gradients in its task: runs `send` now, on
  /// this thread. In virtual time, a job computes everything at once, and `send` runs at the time at which a job of
  /// this duration would have reached that point.
  virtual void when_computed(double gradients, std::function<void()> send) {
    (void)gradients;
    send();
  }
};

class lane {
 public:
  /// Work to do; the function it returns is run by the owner. Must not throw: on_lane() and then_on_lane() ensure this.
  using job = std::function<std::function<void()>()>;

  /// Lets the current job finish and drops jobs not begun. Does not wait. For a job waiting at the meeting point,
  /// wait() returns false.
  virtual ~lane() = default;

  /// Queues `work`, described by `what`. Its completion reaches `owner` as (done_atom, completion); a queued job keeps
  /// its owner alive.
  virtual void post(caf::actor owner, task what, job work) = 0;

  /// Returns where this lane's jobs wait for their owner. The owner must request it before the first post().
  virtual std::shared_ptr<rendezvous> meeting_point() = 0;

  /// Returns the clock of this lane's jobs.
  virtual std::shared_ptr<job_clock> clock() { return std::make_shared<job_clock>(); }
};

/// Makes the lanes of one process. make() may be called from any thread.
class lane_factory {
 public:
  virtual ~lane_factory() = default;
  virtual std::unique_ptr<lane> make(const actor_label& owner) = 0;
};

/// Answers a request with the result of `work()`, described by `what` and run on `where`. If it throws, `self` quits
/// with error_of() the exception, which is also the answer.
template <class Result, class Self, class Work>
caf::typed_response_promise<Result> on_lane(Self* self, lane& where, task what, Work work) {
  auto promise = self->template make_response_promise<Result>();
  where.post(caf::actor_cast<caf::actor>(self), what,
             [self, promise, work = std::move(work)]() -> std::function<void()> {
               try {
                 auto result = std::make_shared<Result>(work());
                 return [promise, result]() mutable { promise.deliver(std::move(*result)); };
               } catch (...) {
                 return [self, promise, why = error_of(std::current_exception())]() mutable {
                   promise.deliver(why);
                   self->quit(why);
                 };
               }
             });
  return promise;
}

/// Runs `work`, described by `what`, on `where` and then `next(result)` in the context of `self`. If either throws,
/// `self` quits.
template <class Self, class Work, class Next>
void then_on_lane(Self* self, lane& where, task what, Work work, Next next) {
  where.post(caf::actor_cast<caf::actor>(self), what,
             [self, work = std::move(work), next = std::move(next)]() -> std::function<void()> {
               try {
                 auto result = std::make_shared<decltype(work())>(work());
                 return [next, result]() mutable { next(std::move(*result)); };
               } catch (...) {
                 return [self, why = error_of(std::current_exception())] { self->quit(why); };
               }
             });
}

/// Makes an exception in a handler end `self` with error_of() the exception. Call it first in every actor.
template <class Self>
void report_exceptions(Self* self) {
  self->set_exception_handler([](std::exception_ptr& raised) -> caf::error { return error_of(raised); });
}

}  // namespace troupe
