#include "troupe/runtime/node/signals.hpp"

#include "troupe/runtime/node/process_handle.hpp"
#include "troupe/runtime/support/ending_signals.hpp"

#include <sys/eventfd.h>
#include <sys/signalfd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <poll.h>
#include <pthread.h>
#include <stdexcept>
#include <string_view>
#include <unistd.h>

namespace troupe {

namespace {

using std::chrono::milliseconds;

/// How long after the first signal the process reports that it is still running, and why.
constexpr milliseconds time_to_say_so{2000};

/// Interval at which a process checks whether its launcher is stopped.
constexpr milliseconds between_signal_looks{250};

/// After SIGCONT, children are continued this many times, at this interval. A busy machine may delay a child between
/// seeing that this process is stopped and stopping itself.
constexpr int continues_in_all = 20;
constexpr milliseconds between_continues{250};

/// Returns whether the signal still has its default action in this process.
bool is_free(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_DFL;
}

sigset_t watched() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : ending_signals)
    if (signal == SIGINT || signal == SIGTERM || is_free(signal)) sigaddset(&set, signal);
  if (is_free(SIGQUIT)) sigaddset(&set, SIGQUIT);
  sigaddset(&set, SIGCONT);
  return set;
}

/// Writes a line to standard error without the locks of stdio, which the main thread may hold; writes nothing if the
/// write would block, because later signals must still be handled.
void say(std::string line) {
  line += '\n';
  pollfd ready{STDERR_FILENO, POLLOUT, 0};
  if (poll(&ready, 1, 0) != 1) return;
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

/// Returns the parent of this process if the parent has declared itself the launcher, otherwise 0.
pid_t launcher_of_this() {
  const auto* given = std::getenv(launcher_variable);
  const auto parent = getppid();
  return given != nullptr && std::to_string(parent) == given ? parent : 0;
}

int open_or_throw(int file, const char* what) {
  if (file < 0) throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
  return file;
}

}  // namespace

void become_launcher() {
  ::setenv(launcher_variable, std::to_string(getpid()).c_str(), 1);
}

std::string name_of_signal(int signal) {
  const auto* name = sigabbrev_np(signal);
  return name != nullptr ? "SIG" + std::string(name) : "signal " + std::to_string(signal);
}

signal_watch::signal_watch() : launcher_(launcher_of_this()) {
  const auto set = watched();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signals_ = open_or_throw(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), "signalfd");
  leaving_ = open_or_throw(eventfd(0, EFD_CLOEXEC), "eventfd");
  thread_ = std::thread{[this] { watch(); }};
}

signal_watch::~signal_watch() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(leaving_, &one, sizeof(one));
  thread_.join();
  ::close(signals_);
  ::close(leaving_);
}

void signal_watch::on_signal(std::function<void(int)> handler) {
  const std::lock_guard lock{mutex_};
  handler_ = std::move(handler);
  saves_ = true;
  if (received_ != 0 && handler_) handler_(received_);
}

void signal_watch::before_exit(std::function<void()> what) {
  const std::lock_guard lock{mutex_};
  before_exit_ = std::move(what);
}

void signal_watch::on_continue(std::function<void()> what) {
  const std::lock_guard lock{mutex_};
  continues_ = std::move(what);
}

void signal_watch::watch() {
  std::array<pollfd, 2> ready{pollfd{signals_, POLLIN, 0}, pollfd{leaving_, POLLIN, 0}};
  for (;;) {
    poll(ready.data(), ready.size(), milliseconds_to_wait());
    if (ready[1].revents != 0) return;
    for (signalfd_siginfo info{}; ::read(signals_, &info, sizeof(info)) == sizeof(info);)
      take(static_cast<int>(info.ssi_signo));
    look_around();
  }
}

int signal_watch::milliseconds_to_wait() {
  const std::lock_guard lock{mutex_};
  return says_so_ || continues_left_ > 0 || launcher_ != 0 ? static_cast<int>(between_signal_looks.count()) : -1;
}

void signal_watch::take(int signal) {
  const std::lock_guard lock{mutex_};
  if (signal == SIGCONT) {
    continued_ = clock::now();
    continues_left_ = continues_ ? continues_in_all : 0;
    return;
  }
  if (signal == SIGQUIT) end_at_once(signal, "ended at once by SIGQUIT");
  if (!saves_) end_at_once(signal, "interrupted by " + name_of_signal(signal));
  if (received_ == 0) {
    received_ = signal;
    since_ = clock::now();
    says_so_ = launcher_ == 0;  // a launcher reports it for all processes
    if (handler_) handler_(signal);
  } else if (clock::now() - since_ >= same_event) {
    end_at_once(signal, "ended at once by a second signal, " + name_of_signal(signal));
  }
}

/// Does the work that is due without a signal.
void signal_watch::look_around() {
  if (launcher_ != 0 && state_of_process(launcher_) == 'T') ::kill(::getpid(), SIGSTOP);  // until it continues us
  const std::lock_guard lock{mutex_};
  const auto told = continues_in_all - continues_left_;
  if (continues_left_ > 0 && clock::now() - continued_ >= told * between_continues) {
    --continues_left_;
    if (continues_) continues_();
  }
  if (!says_so_ || clock::now() - since_ < time_to_say_so) return;
  says_so_ = false;
  say(name_of_signal(received_) +
      " received: waiting for the operation under way, to end in good order; another signal ends at once");
}

void signal_watch::end_at_once(int signal, const std::string& line) {
  if (before_exit_) before_exit_();
  say(line);
  _exit(128 + signal);
}

}  // namespace troupe
