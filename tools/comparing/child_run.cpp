#include "troupe/tools/comparing/child_run.hpp"

#include "troupe/runtime/node/child_process.hpp"

#include <sys/syscall.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <stdexcept>
#include <unistd.h>

namespace troupe::comparing {

namespace {

using clock = std::chrono::steady_clock;

struct log_file {
  explicit log_file(int descriptor) : file(descriptor) {}
  ~log_file() { close(file); }
  log_file(const log_file&) = delete;
  log_file& operator=(const log_file&) = delete;
  int file;
};

}  // namespace

child_runner::child_runner(signal_watch& signals)
    : signals_(signals), handler_(signals, [this](int signal) { forward(signal); }) {
  become_launcher();  // the child is in a group of its own, which Ctrl-Z does not stop
  signals_.on_continue([this] {
    const std::lock_guard lock(mutex_);
    for (const auto process : processes_) kill(process, SIGCONT);
  });
  std::signal(SIGCHLD, SIG_DFL);  // an ignored SIGCHLD is inherited and discards exit statuses
}

child_runner::~child_runner() {
  signals_.on_continue({});
}

void child_runner::forward(int signal) {
  const std::lock_guard lock(mutex_);
  signal_ = signal;
  for (const auto process : processes_) kill(process, signal);
}

int child_runner::run(const std::vector<std::string>& arguments, const std::filesystem::path& log,
                      const std::function<void(std::chrono::milliseconds)>& tick) {
  const int file = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) throw std::runtime_error(log.string() + ": cannot be written: " + std::strerror(errno));
  const log_file closed_at_the_end{file};
  pid_t process = -1;
  {
    const std::lock_guard lock(mutex_);  // a signal reaches either the child or the check before it
    if (signal_ != 0) return 128 + signal_;
    process = start_child(arguments, {.output = file});
    processes_.insert(process);
  }
  return wait_for(process, tick);
}

int child_runner::wait_for(pid_t process, const std::function<void(std::chrono::milliseconds)>& tick) {
  constexpr int tick_ms = 1000;
  const auto begin = clock::now();
  const auto file = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
  pollfd ended{.fd = file, .events = POLLIN, .revents = 0};
  while (file >= 0 && poll(&ended, 1, tick_ms) <= 0)
    tick(std::chrono::duration_cast<std::chrono::milliseconds>(clock::now() - begin));
  if (file >= 0) close(file);
  siginfo_t ignored{};
  while (waitid(P_PID, static_cast<id_t>(process), &ignored, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
  const std::lock_guard lock(mutex_);  // once the child is reaped, another process may get its number
  processes_.erase(process);
  int status = 0;
  if (waitpid(process, &status, 0) < 0 || !WIFEXITED(status)) return 1;
  return WEXITSTATUS(status);
}

}  // namespace troupe::comparing
