#include "troupe/runtime/node/signals.hpp"

#include <csignal>
#include <pthread.h>
#include <unistd.h>
#include <utility>

namespace troupe {

namespace {

constexpr int wake_up = SIGUSR2;  ///< Wakes the watching thread, which then sees that it may leave.

/// Returns whether the process was started with this signal ignored, as nohup does for SIGHUP.
bool is_ignored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

sigset_t watched() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, wake_up}) sigaddset(&set, signal);
  if (!is_ignored(SIGHUP)) sigaddset(&set, SIGHUP);
  return set;
}

}  // namespace

signal_watch::signal_watch() {
  const auto set = watched();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread{[this] { watch(); }};
}

signal_watch::~signal_watch() {
  leaving_ = true;
  pthread_kill(thread_.native_handle(), wake_up);
  thread_.join();
}

void signal_watch::on_signal(std::function<void(int)> handler) {
  const std::lock_guard lock{mutex_};
  handler_ = std::move(handler);
  if (received_ != 0 && handler_) handler_(received_);
}

void signal_watch::before_exit(std::function<void()> what) {
  const std::lock_guard lock{mutex_};
  before_exit_ = std::move(what);
}

void signal_watch::watch() {
  const auto set = watched();
  for (;;) {
    int signal = 0;
    if (sigwait(&set, &signal) != 0) continue;
    if (leaving_) return;
    if (signal == wake_up) continue;  // sent by another process
    const std::lock_guard lock{mutex_};
    if (received_ != 0) {
      if (before_exit_) before_exit_();
      _exit(128 + signal);
    }
    received_ = signal;
    if (handler_) handler_(signal);
  }
}

}  // namespace troupe
