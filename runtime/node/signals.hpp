// The signals that end a process, handled by calls on a separate thread. Create the signal_watch at the start of
// main(), before any other thread: it blocks the signals for the whole process, and threads inherit that.
//
// - Before the first handler is set, there is nothing to save: a signal ends the process at once, with a line.
// - From then on, the first signal calls the handler, which ends the run in good order.
// - Signals within same_event of the first one are ignored: a terminal that closes sends SIGHUP twice.
// - A later signal ends the process at once.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace troupe {

/// Signals that follow the first one within this time belong to the same event.
inline constexpr std::chrono::milliseconds same_event{1000};

/// Environment variable in which a process that starts other processes of this program passes them its process id. They
/// stop when it is stopped (Ctrl-Z, SIGSTOP), and it continues them when it continues itself.
inline constexpr auto* launcher_variable = "TROUPE_LAUNCHER";

/// Declares this process the launcher of those that it will start; see launcher_variable.
void become_launcher();

/// Returns a name such as "SIGTERM".
std::string name_of_signal(int signal);

/// Watches for ending_signals on its own thread, and for SIGQUIT, which always ends the process at once. Signals that
/// are ignored when the process starts, such as SIGHUP under nohup, or that a preloaded library handles, are left
/// alone. SIGINT and SIGTERM are always watched: a script starts a command in the background with SIGINT ignored, and
/// may still send it. There is one watch in a process.
class signal_watch {
 public:
  signal_watch();
  ~signal_watch();
  signal_watch(const signal_watch&) = delete;
  signal_watch& operator=(const signal_watch&) = delete;

  /// Calls `handler` with the first signal, even if it was received before this call. Without a handler, the first
  /// signal is kept for a later handler.
  void on_signal(std::function<void(int)> handler);

  /// Calls `what` before a signal ends the process at once.
  void before_exit(std::function<void()> what);

  /// Calls `what` when the process continues after a stop, and again several times afterwards: a child that checks
  /// whether this process is stopped may stop a moment after this process continues.
  void on_continue(std::function<void()> what);

 private:
  using clock = std::chrono::steady_clock;

  void watch();
  void take(int signal);
  void look_around();
  int milliseconds_to_wait();
  [[noreturn]] void end_at_once(int signal, const std::string& line);

  std::mutex mutex_;
  std::function<void(int)> handler_;
  std::function<void()> before_exit_, continues_;
  bool saves_{false};  ///< Whether there ever was a handler.
  int received_{0};
  clock::time_point since_{}, continued_{};  ///< Times of the first signal and of the last SIGCONT.
  int continues_left_{0};                    ///< How often `continues_` is still called.
  bool says_so_{false};                      ///< Whether to report what the process waits for if it is still running.
  pid_t launcher_{0};                        ///< The process with which this one stops, or 0.
  int signals_{-1}, leaving_{-1};            ///< File descriptors.
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
