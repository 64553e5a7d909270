#include "troupe/runtime/support/activity.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace troupe {

namespace {

struct one_activity {
  std::string what;
  std::chrono::milliseconds limit;
  std::string limit_key;
  activity::when_late then;
};

/// The activities of this process, the innermost last.
struct activities {
  std::mutex mutex;
  std::vector<one_activity> all;
  std::atomic<std::uint64_t> progress{0};  ///< Changes whenever an activity begins, ends or reports progress.
};

activities& of_this_process() {
  static activities all;
  return all;
}

/// Time is counted in looks, so that a process that was suspended misses at most one.
constexpr std::chrono::milliseconds between_looks{250};

/// A busy machine would exceed a shorter limit.
constexpr std::chrono::milliseconds least_limit{1000};

std::string in_seconds(std::chrono::milliseconds time) {
  auto text = std::to_string(time.count() / 1000);
  if (time.count() % 1000 != 0) return std::to_string(time.count()) + " ms";
  return text += " s";
}

}  // namespace

activity::activity(std::string what, std::chrono::milliseconds limit, std::string limit_key, when_late then) {
  auto& registry = of_this_process();
  const std::lock_guard lock{registry.mutex};
  registry.all.push_back({std::move(what), std::max(limit, least_limit), std::move(limit_key), then});
  ++registry.progress;
}

activity::~activity() {
  auto& registry = of_this_process();
  const std::lock_guard lock{registry.mutex};
  registry.all.pop_back();
  ++registry.progress;
}

void activity::goes_on() {
  of_this_process().progress.fetch_add(1, std::memory_order_relaxed);
}

struct activity_watch::looking {
  activity_reports reports;
  std::mutex mutex;
  std::condition_variable changed;
  bool leaving{false};
  std::thread thread;

  void run() {
    auto& registry = of_this_process();
    std::uint64_t seen = 0;
    std::chrono::milliseconds waited{0};
    bool told = false;
    for (std::unique_lock lock{mutex}; !changed.wait_for(lock, between_looks, [this] { return leaving; });) {
      const auto progress = registry.progress.load();
      if (std::exchange(seen, progress) != progress) {
        waited = {};
        told = false;
        continue;
      }
      waited += between_looks;
      const std::lock_guard within{registry.mutex};
      if (told || registry.all.empty() || registry.progress != seen || waited < registry.all.back().limit) continue;
      told = true;
      const auto& late = registry.all.back();
      const auto says = late.what + " has not returned within " + in_seconds(late.limit) + " (" + late.limit_key + ")";
      if (late.then == activity::when_late::end_process) reports.end(says);
      reports.note(says + "; still waiting: a signal (Ctrl-C) ends it");
    }
  }
};

activity_watch::activity_watch(activity_reports reports) : looking_(std::make_unique<looking>()) {
  looking_->reports = std::move(reports);
  looking_->thread = std::thread{[this] { looking_->run(); }};
}

activity_watch::~activity_watch() {
  {
    const std::lock_guard lock{looking_->mutex};
    looking_->leaving = true;
  }
  looking_->changed.notify_all();
  looking_->thread.join();
}

}  // namespace troupe
