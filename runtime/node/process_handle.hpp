// Sends signals to a child process, but never to a later process that is given the same number.
#pragma once

#include "troupe/files/input.hpp"

#include <sys/syscall.h>
#include <sys/types.h>

#include <csignal>
#include <string>
#include <unistd.h>

namespace troupe {

/// Refers to a process that has not been waited for yet. (Before Linux 5.3, a signal may reach a later process with the
/// same number.)
class process_handle {
 public:
  explicit process_handle(pid_t process)
      : process_(process), file_(static_cast<int>(syscall(SYS_pidfd_open, process, 0))) {}
  ~process_handle() {
    if (file_ >= 0) close(file_);
  }
  process_handle(const process_handle&) = delete;
  process_handle& operator=(const process_handle&) = delete;

  void send(int signal) const {
    if (file_ >= 0)
      syscall(SYS_pidfd_send_signal, file_, signal, nullptr, 0);
    else
      kill(process_, signal);
  }

 private:
  pid_t process_;
  int file_;
};

/// Returns the state of a process as in proc(5): 'T' if a signal has stopped it, 't' if a debugger has; '\0' if no
/// process has this number.
inline char state_of_process(pid_t process) {
  std::string text;
  try {
    text = files::read_all("/proc/" + std::to_string(process) + "/stat");
  } catch (const files::unreadable&) {
    return '\0';
  }
  const auto state = text.rfind(") ");  // the name before it may contain any text
  return state != std::string::npos && state + 2 < text.size() ? text[state + 2] : '\0';
}

}  // namespace troupe
