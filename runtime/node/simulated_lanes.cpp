#include "troupe/runtime/node/simulated_lanes.hpp"

#include "troupe/actors/type_ids.hpp"

#include <caf/all.hpp>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace troupe {

namespace {

/// A thread that runs only while the one that hands over to it stands still, and the other way round: what it does in
/// mid-handler has its place in the schedule.
class second_hand {
 public:
  ~second_hand() { end(); }

  /// Begins `task`, and returns when it has ended or passes back.
  void begin(std::function<void()> task) {
    task_ = std::move(task);
    if (!thread_.joinable()) thread_ = std::thread{[this] { work(); }};
    go_on();
  }

  /// Lets the task under way go on, until the same.
  void go_on() {
    std::unique_lock lock{mutex_};
    its_turn_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !its_turn_; });
  }

  /// The task's side: returns at the next go_on().
  void pass_back() {
    std::unique_lock lock{mutex_};
    its_turn_ = false;
    changed_.notify_all();
    changed_.wait(lock, [this] { return its_turn_; });
  }

  /// Ends the thread, which has no task under way.
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

using duration_of_task = std::function<std::chrono::microseconds(const task&)>;

/// When the results of a lane's jobs arrive: each some virtual time after its job was done, in order.
class simulated_results {
 public:
  simulated_results(data::random_stream random, std::chrono::microseconds longest, duration_of_task duration,
                    std::shared_ptr<simulated_cores> cores)
      : random_(random), longest_(longest), duration_(std::move(duration)), cores_(std::move(cores)) {}

  std::chrono::microseconds length_of(const task& what) {
    if (duration_) return duration_(what);
    return std::chrono::microseconds{random_.below(static_cast<std::uint64_t>(longest_.count()) + 1)};
  }

  void send(const caf::actor& owner, std::chrono::microseconds length, std::function<void()> result) {
    const auto since = owner->home_system().clock().now().time_since_epoch();
    const auto now = std::chrono::duration_cast<std::chrono::microseconds>(since);
    const auto earliest = std::max(free_, now);
    free_ = (cores_ && length.count() > 0 ? cores_->take(earliest, length) : earliest) + length;
    constexpr std::chrono::hours longest{24 * 36'525};  // a hundred years, which no run lasts
    const auto wait = std::min<std::chrono::microseconds>(free_ - now, longest);
    completion done{std::make_shared<std::function<void()>>(std::move(result))};
    caf::delayed_anon_send(owner, wait, done_atom_v, std::move(done));
  }

 private:
  data::random_stream random_;
  std::chrono::microseconds longest_;
  duration_of_task duration_;
  std::shared_ptr<simulated_cores> cores_;
  std::chrono::microseconds free_{0};
};

/// A lane's jobs where they may wait for their owner: handed over to a thread, one after the other. All but wait() is
/// called by the scheduler's thread.
class handed_over final : public rendezvous {
 public:
  explicit handed_over(std::shared_ptr<simulated_results> results) : results_(std::move(results)) {}

  void post(caf::actor owner, task what, lane::job work) {
    queued_.push_back({std::move(owner), results_->length_of(what), std::move(work)});
    if (!under_way_) begin_next();
  }

  bool wait() override {
    if (!closed_ && resumes_ == 0) {
      waits_ = true;
      hand_.pass_back();
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
    hand_.go_on();
    if (end_of_turn()) begin_next();
  }

  /// Ends the job that waits, if one does, and forgets those not begun.
  void close() {
    queued_.clear();
    closed_ = true;
    if (waits_) hand_.go_on();
    hand_.end();
    result_.reset();  // its owner has ended
    under_way_.reset();
  }

 private:
  struct posted {
    caf::actor owner;
    std::chrono::microseconds length;
    lane::job work;
  };

  void begin_next() {
    while (!queued_.empty()) {
      under_way_ = std::move(queued_.front());
      queued_.pop_front();
      hand_.begin([this, work = std::move(under_way_->work)] { result_ = work(); });
      if (!end_of_turn()) return;
    }
  }

  /// Sends the result of the job under way, if it has ended.
  bool end_of_turn() {
    if (!result_) return false;
    results_->send(under_way_->owner, under_way_->length, *std::exchange(result_, std::nullopt));
    under_way_.reset();
    return true;
  }

  std::shared_ptr<simulated_results> results_;
  std::deque<posted> queued_;
  std::optional<posted> under_way_;
  std::optional<std::function<void()>> result_;
  std::size_t resumes_{0};  ///< For which no wait() has returned yet.
  bool waits_{false};
  bool closed_{false};
  second_hand hand_;
};

/// Does its jobs at once, in the handler that posts them, or, once it has a meeting point, between that and others.
class simulated_lane final : public lane {
 public:
  explicit simulated_lane(std::shared_ptr<simulated_results> results) : results_(std::move(results)) {}
  ~simulated_lane() override {
    if (elsewhere_) elsewhere_->close();
  }

  void post(caf::actor owner, task what, job work) override {
    if (elsewhere_) return elsewhere_->post(std::move(owner), what, std::move(work));
    const auto length = results_->length_of(what);
    results_->send(owner, length, work());
  }

  std::shared_ptr<rendezvous> meeting_point() override {
    if (!elsewhere_) elsewhere_ = std::make_shared<handed_over>(results_);
    return elsewhere_;
  }

 private:
  std::shared_ptr<simulated_results> results_;
  std::shared_ptr<handed_over> elsewhere_;
};

/// Takes jobs and never answers.
class silent_lane final : public lane {
 public:
  void post(caf::actor, task, job) override {}
  std::shared_ptr<rendezvous> meeting_point() override { return nullptr; }  // no job of it will wait
};

}  // namespace

simulated_cores::time simulated_cores::take(time earliest, time length) {
  const auto first = std::min_element(free_.begin(), free_.end());
  const auto begin = std::max(earliest, *first);
  *first = begin + length;
  return begin;
}

simulated_lanes::simulated_lanes(std::uint64_t seed, simulated_lane_options options)
    : random_(seed), options_(std::move(options)) {}

std::unique_ptr<lane> simulated_lanes::make(const std::string& name) {
  if (name == options_.silent) return std::make_unique<silent_lane>();
  duration_of_task duration;
  if (options_.duration_of) duration = [of = options_.duration_of, name](const task& what) { return of(name, what); };
  auto cores = options_.cores_of ? options_.cores_of(name) : nullptr;
  return std::make_unique<simulated_lane>(std::make_shared<simulated_results>(
      data::random_stream{random_.next()}, options_.longest_job, std::move(duration), std::move(cores)));
}

}  // namespace troupe
