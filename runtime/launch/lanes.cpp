#include "troupe/runtime/launch/lanes.hpp"

#include "troupe/actors/wire/type_ids.hpp"
#include "troupe/algorithms/support/intra_op.hpp"

#include <caf/send.hpp>

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <future>
#include <mutex>
#include <pthread.h>
#include <thread>
#include <utility>
#include <vector>

namespace troupe {

namespace {

/// A semaphore that can be closed.
class thread_rendezvous final : public rendezvous {
 public:
  bool wait() override {
    std::unique_lock lock{mutex_};
    waits_ = true;
    changed_.wait(lock, [this] { return closed_ || resumes_ > 0; });
    waits_ = false;
    if (closed_) return false;
    --resumes_;
    return true;
  }

  void resume() override {
    {
      const std::lock_guard lock{mutex_};
      ++resumes_;
    }
    changed_.notify_one();
  }

  bool waits() {
    const std::lock_guard lock{mutex_};
    return waits_;
  }

  void close() {
    {
      const std::lock_guard lock{mutex_};
      closed_ = true;
    }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t resumes_{0};  ///< Calls of resume() for which no wait() has returned yet.
  bool closed_{false};
  bool waits_{false};
};

struct queued_job {
  caf::actor owner;
  task what;
  lane::job work;
};

struct queue {
  std::mutex mutex;
  std::condition_variable changed;
  std::shared_ptr<thread_rendezvous> meeting = std::make_shared<thread_rendezvous>();
  std::deque<queued_job> jobs;
  bool writing{false};     ///< Whether the running job writes files.
  bool at_work{false};     ///< Whether a job is running.
  std::uint64_t begun{0};  ///< Jobs that have begun.
  bool closed{false};

  void run() {
    for (;;) {
      queued_job next;
      {
        std::unique_lock lock{mutex};
        changed.wait(lock, [this] { return closed || !jobs.empty(); });
        if (closed) return;
        next = std::move(jobs.front());
        jobs.pop_front();
        writing = next.what.what == task::kind::write;
        at_work = true;
        begun += 1;
      }
      caf::anon_send(next.owner, done_atom_v, completion{std::make_shared<std::function<void()>>(next.work())});
      const std::lock_guard lock{mutex};
      at_work = false;
    }
  }

  /// Closes the queue and drops the jobs that have not begun. Returns whether the running job writes files.
  bool close() {
    std::deque<queued_job> forgotten;  // destroyed outside the lock: a job may hold the owner of this queue
    bool was_writing = false;
    {
      const std::lock_guard lock{mutex};
      closed = true;
      was_writing = writing;
      forgotten.swap(jobs);
    }
    changed.notify_all();
    meeting->close();
    return was_writing;
  }
};

class thread_lane final : public lane {
 public:
  explicit thread_lane(std::shared_ptr<queue> work) : work_(std::move(work)) {}
  ~thread_lane() override { work_->close(); }

  void post(caf::actor owner, task what, job work) override {
    {
      const std::lock_guard lock{work_->mutex};
      if (work_->closed) return;
      work_->jobs.push_back({std::move(owner), what, std::move(work)});
    }
    work_->changed.notify_one();
  }

  std::shared_ptr<rendezvous> meeting_point() override { return work_->meeting; }

 private:
  std::shared_ptr<queue> work_;
};

struct lane_thread {
  std::string name;
  std::shared_ptr<queue> work;
  std::uint64_t seen{0};  ///< Value of queue::begun at the last look; see look_at_jobs().
  int looks{0};
  std::future<void> ended;
  std::thread thread;
};

}  // namespace

/// Number of looks at a job within its time limit. Time is counted in looks, so that a process that was suspended
/// misses at most one of them.
constexpr int looks_per_limit = 4;

struct thread_lanes::crew {
  std::mutex mutex;  ///< Guards `threads`: ports make their lanes in their own threads.
  std::vector<lane_thread> threads;

  std::condition_variable looking;
  bool looks{true};  ///< Set to false to end look_at_jobs().
  std::thread looker;

  void look_at_jobs(std::chrono::milliseconds limit, const std::function<void(const std::string&)>& report) {
    std::unique_lock lock{mutex};
    while (!looking.wait_for(lock, limit / looks_per_limit, [this] { return !looks; })) {
      std::vector<std::string> late;
      for (auto& entry : threads) {
        const std::lock_guard its{entry.work->mutex};
        const auto same = entry.work->at_work && !entry.work->closed && entry.work->begun == entry.seen &&
                          !entry.work->meeting->waits();  // else its actor has the deadline
        entry.looks = same ? entry.looks + 1 : 0;
        entry.seen = entry.work->begun;
        if (entry.looks == looks_per_limit) late.push_back(entry.name);
      }
      lock.unlock();  // a report may block if nothing reads it
      for (const auto& name : late)
        report(name + " has not returned from its operation for " + std::to_string(limit.count()) +
               " ms (run.timeout)");
      lock.lock();
    }
  }

  void stop_looking() {
    {
      const std::lock_guard lock{mutex};
      looks = false;
    }
    looking.notify_all();
    if (looker.joinable()) looker.join();
  }
};

thread_lanes::thread_lanes() : crew_(std::make_unique<crew>()) {}

thread_lanes::~thread_lanes() {
  crew_->stop_looking();
  for (auto& entry : crew_->threads) entry.work->close();
  for (auto& entry : crew_->threads) entry.thread.join();
}

std::vector<std::string> thread_lanes::close(std::chrono::milliseconds computing, std::chrono::milliseconds writing) {
  crew_->stop_looking();
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::string> stuck;
  std::vector<std::chrono::milliseconds> limits;
  for (auto& entry : crew_->threads) limits.push_back(entry.work->close() ? writing : computing);
  auto limit = limits.begin();
  for (auto& entry : std::exchange(crew_->threads, {})) {
    if (entry.ended.wait_until(begin + *limit++) == std::future_status::ready) {
      entry.thread.join();
      continue;
    }
    entry.thread.detach();
    stuck.push_back(entry.name);
  }
  return stuck;
}

void thread_lanes::report_long_jobs(std::chrono::milliseconds limit, std::function<void(const std::string&)> report) {
  crew_->looker = std::thread{[crew = crew_.get(), limit, report = std::move(report)] {
    pthread_setname_np(pthread_self(), "long jobs");
    crew->look_at_jobs(limit, report);
  }};
}

std::unique_ptr<lane> thread_lanes::make(const actor_label& owner) {
  auto work = std::make_shared<queue>();
  std::promise<void> ending;
  auto ended = ending.get_future();
  std::thread thread{[work, ending = std::move(ending), name = owner.name.substr(0, 15)]() mutable {
    pthread_setname_np(pthread_self(), name.c_str());
    use_intra_op_threads(1);  // a default: replicas and the evaluator set their own number
    work->run();
    ending.set_value_at_thread_exit();
  }};
  const std::lock_guard lock{crew_->mutex};
  crew_->threads.push_back({.name = owner.name, .work = work, .ended = std::move(ended), .thread = std::move(thread)});
  return std::make_unique<thread_lane>(std::move(work));
}

}  // namespace troupe
