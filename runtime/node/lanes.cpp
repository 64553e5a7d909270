#include "troupe/runtime/node/lanes.hpp"

#include "troupe/actors/support/intra_op.hpp"
#include "troupe/actors/type_ids.hpp"

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
    changed_.wait(lock, [this] { return closed_ || resumes_ > 0; });
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
  std::size_t resumes_{0};  ///< For which no wait() has returned yet.
  bool closed_{false};
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
  bool writing{false};  ///< Whether the running job writes files.
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
      }
      caf::anon_send(next.owner, done_atom_v, completion{std::make_shared<std::function<void()>>(next.work())});
    }
  }

  /// Returns whether the running job writes files.
  bool close() {
    std::deque<queued_job> forgotten;  // destroyed outside the lock: it may hold our own owner
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
  std::future<void> ended;
  std::thread thread;
};

}  // namespace

struct thread_lanes::crew {
  std::mutex mutex;  ///< Ports make their lanes in their own threads.
  std::vector<lane_thread> threads;
};

thread_lanes::thread_lanes() : crew_(std::make_unique<crew>()) {}

thread_lanes::~thread_lanes() {
  for (auto& each : crew_->threads) each.work->close();
  for (auto& each : crew_->threads) each.thread.join();
}

std::vector<std::string> thread_lanes::close(std::chrono::milliseconds computing, std::chrono::milliseconds writing) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::string> stuck;
  std::vector<std::chrono::milliseconds> limits;
  for (auto& each : crew_->threads) limits.push_back(each.work->close() ? writing : computing);
  auto limit = limits.begin();
  for (auto& each : std::exchange(crew_->threads, {})) {
    if (each.ended.wait_until(begin + *limit++) == std::future_status::ready) {
      each.thread.join();
      continue;
    }
    each.thread.detach();
    stuck.push_back(each.name);
  }
  return stuck;
}

std::unique_ptr<lane> thread_lanes::make(const std::string& name) {
  auto work = std::make_shared<queue>();
  std::promise<void> ending;
  auto ended = ending.get_future();
  std::thread thread{[work, ending = std::move(ending), name = name.substr(0, 15)]() mutable {
    pthread_setname_np(pthread_self(), name.c_str());
    use_intra_op_threads(1);  // of this lane; who computes more than sums and steps says otherwise there
    work->run();
    ending.set_value_at_thread_exit();
  }};
  const std::lock_guard lock{crew_->mutex};
  crew_->threads.push_back({name, work, std::move(ended), std::move(thread)});
  return std::make_unique<thread_lane>(std::move(work));
}

}  // namespace troupe
