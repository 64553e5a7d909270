// Handling of SIGINT, SIGTERM and SIGHUP by a call on a separate thread. Create a signal_watch before any other thread
// starts: it blocks the signals for the whole process, and threads inherit that.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace troupe {

/// Watches for SIGINT and SIGTERM on its own thread, and for SIGHUP unless it is ignored.
class signal_watch {
 public:
  signal_watch();
  ~signal_watch();
  signal_watch(const signal_watch&) = delete;
  signal_watch& operator=(const signal_watch&) = delete;

  /// Calls `handler` with the first signal, even if it was received before this call. A second signal ends the process
  /// immediately.
  void on_signal(std::function<void(int)> handler);

  /// Calls `what` before a second signal ends the process.
  void before_exit(std::function<void()> what);

 private:
  void watch();

  std::mutex mutex_;
  std::function<void(int)> handler_;
  std::function<void()> before_exit_;
  int received_{0};
  std::atomic<bool> leaving_{false};
  std::thread thread_;
};

/// Installs `handler` for the lifetime of this object. Create it after everything that the handler refers to.
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
