#include "troupe/runtime/node/child_process.hpp"

#include "troupe/runtime/support/last_error.hpp"

#include <sys/prctl.h>

#include <csignal>
#include <fcntl.h>
#include <stdexcept>
#include <unistd.h>

namespace troupe {

namespace {

/// Turns the new process into the command. It allocates nothing and takes no lock, because only this thread was forked.
[[noreturn]] void exec_child(char* const* arguments, const child_streams& streams, pid_t parent) {
  setpgid(0, 0);                  // signals of the terminal go to the parent only
  std::signal(SIGTTOU, SIG_IGN);  // but it may write to the terminal
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  dup2(streams.output, STDERR_FILENO);
  if (!streams.shares_stdout) dup2(streams.output, STDOUT_FILENO);
  execv("/proc/self/exe", arguments);
  _exit(127);
}

}  // namespace

pid_t start_child(const std::vector<std::string>& arguments, const child_streams& streams) {
  std::vector<char*> words;
  for (const auto& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  const auto parent = getpid();
  const auto process = fork();
  if (process == 0) exec_child(words.data(), streams, parent);
  if (process < 0) throw std::runtime_error("fork: " + last_error().message());
  return process;
}

}  // namespace troupe
