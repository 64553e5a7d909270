#include "troupe/tools/comparing/child_run.hpp"

#include <sys/prctl.h>
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

/// Turns the new process into the command. It allocates nothing and takes no lock, because only this thread was forked.
[[noreturn]] void exec(char* const* arguments, int log, pid_t parent) {
  setpgid(0, 0);  // signals of the terminal go to the parent only
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  execv("/proc/self/exe", arguments);
  _exit(127);
}

}  // namespace

child_runner::child_runner(signal_watch& signals)
    : signals_(signals), handler_(signals, [this](int signal) { forward(signal); }) {
  become_launcher();  // the child is in a group of its own, which Ctrl-Z does not stop
  signals_.on_continue([this] {
    const std::lock_guard lock(mutex_);
    if (process_ > 0) kill(process_, SIGCONT);
  });
  std::signal(SIGCHLD, SIG_DFL);  // an ignored SIGCHLD is inherited, and discards exit statuses
}

child_runner::~child_runner() {
  signals_.on_continue({});
}

void child_runner::forward(int signal) {
  const std::lock_guard lock(mutex_);
  signal_ = signal;
  if (process_ > 0) kill(process_, signal);
}

int child_runner::run(const std::vector<std::string>& arguments, const std::filesystem::path& log,
                      const std::function<void(std::chrono::milliseconds)>& tick) {
  std::vector<char*> words;
  for (const auto& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  const int file = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) throw std::runtime_error(log.string() + ": cannot be written: " + std::strerror(errno));
  const auto parent = getpid();
  const auto process = [&] {
    const std::lock_guard lock(mutex_);  // a signal reaches either the child or the check before it
    if (signal_ != 0) return process_ = 0;
    process_ = fork();
    if (process_ == 0) exec(words.data(), file, parent);
    return process_;
  }();
  const auto reason = errno;
  close(file);
  if (process == 0) return 128 + signal_;
  if (process < 0) throw std::runtime_error(std::string("fork: ") + std::strerror(reason));
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
  const std::lock_guard lock(mutex_);  // after it is reaped, its number may be that of another process
  process_ = -1;
  int status = 0;
  if (waitpid(process, &status, 0) < 0 || !WIFEXITED(status)) return 1;
  return WEXITSTATUS(status);
}

}  // namespace troupe::comparing
