// A lane: where an actor's blocking work runs (LibTorch, files), so that no handler blocks. Jobs of a lane run one
// after the other; what a job has to say comes back to its owner as a message. The launcher alone decides what a lane
// is: a thread of its own, or the same thread under the test coordinator.
#pragma once

#include "troupe/actors/errc.hpp"
#include "troupe/actors/inspect.hpp"

#include <caf/actor.hpp>
#include <caf/actor_cast.hpp>
#include <caf/typed_response_promise.hpp>

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace troupe {

/// What a job has its owner do, in the owner's own context: at its end, or while it stands still at a rendezvous. Stays
/// in the process.
struct completion {
  std::shared_ptr<std::function<void()>> run;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, completion&) {
  return detail::inspect_local(f, "completion");
}

/// Where a job of a lane stands still until its owner has what it needs to go on. Outlives both.
class rendezvous {
 public:
  virtual ~rendezvous() = default;

  /// The job's side, on any thread: returns when resume() has been called for it. False: the lane is gone, and nobody
  /// will.
  virtual bool wait() = 0;

  /// The owner's side: lets one wait() return, also one that is still to come.
  virtual void resume() = 0;
};

class lane {
 public:
  /// Work to do; what it returns is run by the owner. Must not throw: on_lane() and then_on_lane() see to it.
  using job = std::function<std::function<void()>()>;

  /// Lets the job under way finish, forgets those not begun. Does not wait. A job that waits at the meeting point is
  /// told that nobody will come.
  virtual ~lane() = default;

  /// Queues `work`. Its completion reaches `owner` as (done_atom, completion); a job holds its owner alive.
  virtual void post(caf::actor owner, job work) = 0;

  /// Returns where this lane's jobs wait for their owner. Who lets them wait asks for it before the first post().
  virtual std::shared_ptr<rendezvous> meeting_point() = 0;
};

/// Makes the lanes of one process. `name` is that of the actor.
class lane_factory {
 public:
  virtual ~lane_factory() = default;
  virtual std::unique_ptr<lane> make(const std::string& name) = 0;
};

/// Answers a request with what `work()` returns, run on `where`. An exception there makes `self` quit with
/// errc::failed and its text, and is the answer too.
template <class Result, class Self, class Work>
caf::typed_response_promise<Result> on_lane(Self* self, lane& where, Work work) {
  auto promise = self->template make_response_promise<Result>();
  where.post(caf::actor_cast<caf::actor>(self), [self, promise, work = std::move(work)]() -> std::function<void()> {
    try {
      auto result = std::make_shared<Result>(work());
      return [promise, result]() mutable { promise.deliver(std::move(*result)); };
    } catch (...) {
      return [self, promise, text = describe(std::current_exception())]() mutable {
        promise.deliver(make_error(errc::failed, text));
        self->quit(make_error(errc::failed, text));
      };
    }
  });
  return promise;
}

/// Runs `work` on `where` and then `next(result)` in the context of `self`. Exceptions of either make `self` quit.
template <class Self, class Work, class Next>
void then_on_lane(Self* self, lane& where, Work work, Next next) {
  where.post(caf::actor_cast<caf::actor>(self),
             [self, work = std::move(work), next = std::move(next)]() -> std::function<void()> {
               try {
                 auto result = std::make_shared<decltype(work())>(work());
                 return [next, result]() mutable { next(std::move(*result)); };
               } catch (...) {
                 return
                     [self, text = describe(std::current_exception())] { self->quit(make_error(errc::failed, text)); };
               }
             });
}

/// What every actor does first: turns an exception of a handler into errc::failed with its text.
template <class Self>
void report_exceptions(Self* self) {
  self->set_exception_handler(
      [](std::exception_ptr& raised) -> caf::error { return make_error(errc::failed, describe(raised)); });
}

}  // namespace troupe
