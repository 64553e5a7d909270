#include "troupe/runtime/simulation/simulated_lanes.hpp"

#include "troupe/actors/wire/type_ids.hpp"

#include <caf/all.hpp>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace troupe {

namespace {

/// A thread that takes turns with the thread of the scheduler: only one of them runs at a time, so that whatever a job
/// does in the middle of a handler is part of the schedule.
class turn_taking_thread {
 public:
  ~turn_taking_thread() { end(); }

  /// Begins `task` and returns when it ends or calls pass_back().
  void begin(std::function<void()> task) {
    task_ = std::move(task);
    if (!thread_.joinable()) thread_ = std::thread{[this] { work(); }};
    go_on();
  }

  /// Resumes the current task and returns when it ends or calls pass_back().
  void go_on() {
    std::unique_lock lock{mutex_};
    its_turn_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !its_turn_; });
  }

  /// Called by the task: returns at the next go_on().
  void pass_back() {
    std::unique_lock lock{mutex_};
    its_turn_ = false;
    changed_.notify_all();
    changed_.wait(lock, [this] { return its_turn_; });
  }

  /// Ends the thread. No task may be under way.
  void end() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock{mutex_};
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  void work() {
    std::unique_lock lock{mutex_};
    for (;;) {
      changed_.wait(lock, [this] { return its_turn_ || over_; });
      if (over_) return;
      lock.unlock();
      std::exchange(task_, {})();
      lock.lock();
      its_turn_ = false;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> task_;
  bool its_turn_{false};
  bool over_{false};
  std::thread thread_;
};

using std::chrono::microseconds;
using duration_of_task = std::function<microseconds(const task&)>;

/// The virtual time of a lane's jobs. A job is executed all at once when it begins, but its virtual time starts when
/// the previous job ends. Times are measured in the progress of the cores, which is virtual time for a lane with a core
/// of its own.
class simulated_clock final : public job_clock, public std::enable_shared_from_this<simulated_clock> {
 public:
  simulated_clock(data::random_stream random, microseconds longest, duration_of_task duration,
                  std::shared_ptr<simulated_cores> cores, double slowdown, simulated_job_listener on_job)
      : random_(random),
        longest_(longest),
        duration_(std::move(duration)),
        cores_(std::move(cores)),
        slowdown_(slowdown),
        on_job_(std::move(on_job)) {}

  microseconds length_of(const task& what) {
    if (duration_) return duration_(what);
    return microseconds{random_.below(static_cast<std::uint64_t>(longest_.count()) + 1)};
  }

  /// Begins a job of `length`, now or when the previous job ends.
  void begin(caf::actor owner, const task& what, microseconds length) {
    owner_ = std::move(owner);
    system_ = &owner_->home_system();
    what_ = what;
    length_ = length;
    begun_ = now();
    begin_ = reached_ = std::max(free_, progress());
    free_ = begin_ + in_double(length);
    occupy_until(free_);
  }

  void when_computed(double gradients, std::function<void()> send) override {
    reached_ = std::max(reached_, begin_ + in_double(before(gradients)));
    deliver(reached_, std::move(send));
  }

  /// Pauses the job at the point it has reached.
  void pause() { occupy_until(reached_); }

  /// Resumes the job after a wait and delays the rest of it by the length of the wait.
  void resume() {
    const auto waited = std::max(progress() - reached_, 0.0);
    for (auto* point : {&begin_, &reached_, &free_}) *point += waited;
    occupy_until(free_);
  }

  /// Ends the job: its result arrives when its time has passed.
  void end(std::function<void()> result) {
    if (on_job_)
      result = [self = shared_from_this(), what = what_, begun = begun_, result = std::move(result)] {
        const auto end = self->now();
        self->on_job_({.what = what, .begin = std::max(begun, self->last_end_), .end = end});
        self->last_end_ = end;
        result();
      };
    const auto factor = what_.what == task::kind::advance ? slowdown_ : 1;
    // A delay of `longest` ends the simulation with an error.
    const auto longest = in_double(microseconds{longest_delay});
    const microseconds idle{std::llround(std::min((factor - 1) * in_double(length_), longest))};
    if (idle.count() > 0)
      result = [owner = owner_, idle, result = std::move(result)] { send_later(owner, idle, result); };
    deliver(free_, std::move(result));
    if (!cores_) free_ += in_double(idle);
    forget();
  }

  /// Sends nothing more for the job under way.
  void forget() { owner_ = {}; }

  /// Removes the lane from the cores that it shares.
  void close() {
    if (cores_ && system_) cores_->remove(this, now());
  }

 private:
  static double in_double(microseconds length) { return static_cast<double>(length.count()); }

  microseconds now() const {
    return std::chrono::duration_cast<microseconds>(system_->clock().now().time_since_epoch());
  }

  double progress() const { return cores_ ? cores_->progress(now()) : in_double(now()); }

  void occupy_until(double until) {
    if (cores_) cores_->occupy(this, until, now());
  }

  /// Returns the time until the job has computed this many gradients. Its other work comes first: it applies answers
  /// and makes steps.
  microseconds before(double gradients) const {
    auto copying = what_;
    copying.gradients = 0;
    const auto first = duration_ ? std::min(duration_(copying), length_) : microseconds{0};
    const auto share = gradients / static_cast<double>(std::max<std::uint64_t>(1, what_.gradients));
    const auto computing = static_cast<double>((length_ - first).count()) * std::clamp(share, 0.0, 1.0);
    return first + microseconds{std::llround(computing)};
  }

  static void send_later(const caf::actor& owner, microseconds delay, std::function<void()> what) {
    completion done{std::make_shared<std::function<void()>>(std::move(what))};
    caf::delayed_anon_send(owner, std::min<microseconds>(delay, longest_delay), done_atom_v, std::move(done));
  }

  void deliver(double when, std::function<void()> what) {
    if (cores_) return cores_->call_at(when, this, owner_, std::move(what), now());
    const auto end = in_double(now() + longest_delay);
    send_later(owner_, microseconds{std::llround(std::min(when, end))} - now(), std::move(what));
  }

  data::random_stream random_;
  microseconds longest_;
  duration_of_task duration_;
  std::shared_ptr<simulated_cores> cores_;
  double slowdown_;
  simulated_job_listener on_job_;
  caf::actor_system* system_{nullptr};
  double free_{0};            ///< When the last job ends.
  microseconds last_end_{0};  ///< When the last finished job ended.

  // The job under way.
  caf::actor owner_;
  task what_;
  microseconds length_{0}, begun_{0};
  double begin_{0}, reached_{0};  ///< `reached_`: point up to which the job has sent its messages.
};

/// The jobs of a lane on which jobs may wait for their owner: a thread executes them one after the other. All functions
/// except wait() are called on the thread of the scheduler.
class threaded_jobs final : public rendezvous {
 public:
  explicit threaded_jobs(std::shared_ptr<simulated_clock> clock) : clock_(std::move(clock)) {}

  void post(caf::actor owner, task what, lane::job work) {
    queued_.push_back({std::move(owner), what, clock_->length_of(what), std::move(work)});
    if (!under_way_) begin_next();
  }

  bool wait() override {
    if (!closed_ && resumes_ == 0) {
      waits_ = true;
      clock_->pause();
      thread_.pass_back();
      waits_ = false;
    }
    if (closed_) return false;
    --resumes_;
    return true;
  }

  void resume() override {
    if (closed_) return;
    ++resumes_;
    if (!waits_) return;
    clock_->resume();
    thread_.go_on();
    if (end_of_turn()) begin_next();
  }

  /// Ends the job that is waiting, if any, and discards the jobs that have not begun.
  void close() {
    queued_.clear();
    closed_ = true;
    if (waits_) thread_.go_on();
    thread_.end();
    result_.reset();  // its owner has ended
    under_way_.reset();
    clock_->forget();
  }

 private:
  struct posted {
    caf::actor owner;
    task what;
    microseconds length;
    lane::job work;
  };

  void begin_next() {
    while (!queued_.empty()) {
      under_way_ = std::move(queued_.front());
      queued_.pop_front();
      clock_->begin(under_way_->owner, under_way_->what, under_way_->length);
      thread_.begin([this, work = std::move(under_way_->work)] { result_ = work(); });
      if (!end_of_turn()) return;
    }
  }

  /// Sends the result of the job under way if it has ended. Returns whether it has.
  bool end_of_turn() {
    if (!result_) return false;
    clock_->end(*std::exchange(result_, std::nullopt));
    under_way_.reset();
    return true;
  }

  std::shared_ptr<simulated_clock> clock_;
  std::deque<posted> queued_;
  std::optional<posted> under_way_;
  std::optional<std::function<void()>> result_;
  std::size_t resumes_{0};  ///< Calls for which no wait() has returned yet.
  bool waits_{false};
  bool closed_{false};
  turn_taking_thread thread_;
};

/// Executes each job at once in the handler that posts it. Once the lane has a meeting point, a job that waits
/// continues in a later handler.
class simulated_lane final : public lane {
 public:
  explicit simulated_lane(std::shared_ptr<simulated_clock> clock) : clock_(std::move(clock)) {}
  ~simulated_lane() override {
    if (threaded_) threaded_->close();
    clock_->close();
  }

  void post(caf::actor owner, task what, job work) override {
    if (threaded_) return threaded_->post(std::move(owner), what, std::move(work));
    clock_->begin(std::move(owner), what, clock_->length_of(what));
    clock_->end(work());
  }

  std::shared_ptr<rendezvous> meeting_point() override {
    if (!threaded_) threaded_ = std::make_shared<threaded_jobs>(clock_);
    return threaded_;
  }

  std::shared_ptr<job_clock> clock() override { return clock_; }

 private:
  std::shared_ptr<simulated_clock> clock_;
  std::shared_ptr<threaded_jobs> threaded_;
};

}  // namespace

simulated_lanes::simulated_lanes(std::uint64_t seed, simulated_lane_options options)
    : random_(seed), options_(std::move(options)) {}

std::unique_ptr<lane> simulated_lanes::make(const actor_label& owner) {
  duration_of_task duration;
  if (options_.duration_of)
    duration = [duration_of = options_.duration_of, owner](const task& job) { return duration_of(owner, job); };
  auto cores = options_.cores_of ? options_.cores_of(owner) : nullptr;
  const auto slowdown = options_.slowdown_of ? options_.slowdown_of(owner) : 1;
  return std::make_unique<simulated_lane>(std::make_shared<simulated_clock>(
      data::random_stream{random_.next()}, options_.longest_job, std::move(duration), std::move(cores), slowdown,
      options_.listen_to ? options_.listen_to(owner) : simulated_job_listener{}));
}

}  // namespace troupe
