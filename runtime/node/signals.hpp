// SIGINT and SIGTERM as a call on a thread of their own. Make one before any other thread starts: it blocks the signals
// for the whole process, and threads inherit that.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace troupe {

class signal_watch {
 public:
  signal_watch();
  ~signal_watch();
  signal_watch(const signal_watch&) = delete;
  signal_watch& operator=(const signal_watch&) = delete;

  /// Calls `handler` with the first signal that comes, also one that came already. The second ends the process at once.
  void on_signal(std::function<void(int)> handler);

 private:
  void watch();

  std::mutex mutex_;
  std::function<void(int)> handler_;
  int received_{0};
  std::atomic<bool> leaving_{false};
  std::thread thread_;
};

/// Has `handler` called for as long as this lives, and so no longer than what the handler refers to: make it after
/// that.
class signal_handler {
 public:
  signal_handler(signal_watch& signals, std::function<void(int)> handler) : signals_(signals) {
    signals_.on_signal(std::move(handler));
  }
  ~signal_handler() { signals_.on_signal({}); }
  signal_handler(const signal_handler&) = delete;
  signal_handler& operator=(const signal_handler&) = delete;

 private:
  signal_watch& signals_;
};

}  // namespace troupe
