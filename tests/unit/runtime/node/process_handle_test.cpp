// A process that has ended, and another process with the same number.
#include "troupe/runtime/node/process_handle.hpp"

#include "tests/support/doctest.hpp"

#include <sys/wait.h>

#include <csignal>
#include <fstream>
#include <optional>
#include <unistd.h>

namespace node_process_handle_test {

using namespace troupe;

namespace {

/// Starts a process that waits for a signal.
pid_t start_waiting() {
  const auto process = fork();
  if (process == 0) {
    pause();
    _exit(0);
  }
  return process;
}

int end_of(pid_t process) {
  int status = 0;
  waitpid(process, &status, 0);
  return status;
}

/// Starts a process with this number, if the system allows that and no other process has it.
std::optional<pid_t> start_as(pid_t number) {
  for (int i = 0; i < 20; ++i) {
    std::ofstream("/proc/sys/kernel/ns_last_pid") << number - 1 << std::flush;
    const auto process = start_waiting();
    if (process == number) return process;
    kill(process, SIGKILL);
    end_of(process);
  }
  return std::nullopt;
}

}  // namespace

TEST_CASE("a signal reaches the process that was meant, and no other one that has its number later") {
  const auto first = start_waiting();
  const process_handle handle{first};
  handle.send(SIGUSR1);
  CHECK(WTERMSIG(end_of(first)) == SIGUSR1);
  const auto second = start_as(first);
  if (!second) {
    MESSAGE("SKIPPED: this process may not choose the numbers of others");
    return;
  }
  handle.send(SIGUSR1);
  kill(*second, SIGUSR2);
  CHECK(WTERMSIG(end_of(*second)) == SIGUSR2);
}

}  // namespace node_process_handle_test
