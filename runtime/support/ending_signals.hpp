// The signals that ask a run to end in good order.
#pragma once

#include <algorithm>
#include <array>
#include <csignal>

namespace troupe {

/// SIGUSR1, SIGUSR2 and SIGXCPU announce the end of a job's time under several schedulers, or a limit of the shell.
inline constexpr std::array ending_signals{SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU, SIGALRM};

/// Returns whether a signal asks a run to end in good order.
inline bool ends_run(int signal) {
  return std::find(ending_signals.begin(), ending_signals.end(), signal) != ending_signals.end();
}

}  // namespace troupe
